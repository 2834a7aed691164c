//! What the operator asked for.
