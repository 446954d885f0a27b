//! Larger runs.
