//! The messages of the output plugin pgoutput.
