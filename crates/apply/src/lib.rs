//! How transactions become rows in the target, in a safe order.
