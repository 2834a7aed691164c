//! Which committed transactions go into the trail.
