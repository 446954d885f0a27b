//! portalock
pub mod protocol;
