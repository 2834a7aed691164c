//! What a running group is: checkpoint file, status, report, failure policy.
