//! A simulator that never failed has proved nothing: known faults of the protocol, each caught within the
//! seeds of an ordinary run.
