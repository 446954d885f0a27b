//! Stands for TLS in a build without it: there is no value of these types.

use std::convert::Infallible;
use std::io::{self, Read, Write};

use crate::error::{Error, Result, Status};
use crate::options::TlsOptions;

/// How a client speaks TLS: it cannot.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    pub(crate) fn load(_options: &TlsOptions) -> Result<Self> {
        let text = "this build of the library does not support TLS (its feature `tls` is off)";
        Err(Error::new(Status::Unsupported, text))
    }

    pub(super) fn begin(&self, _host: &str) -> io::Result<Session> {
        match self.0 {}
    }
}

pub(super) struct Session(Infallible);

impl Session {
    pub(super) fn is_handshaking(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn wants_write(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn shake_hands(&mut self, _socket: &mut (impl Read + Write)) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn send(
        &mut self,
        _socket: &mut (impl Read + Write),
        _bytes: &[u8],
    ) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn receive(
        &mut self,
        _socket: &mut (impl Read + Write),
        _buffer: &mut [u8],
    ) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn push(&mut self, _socket: &mut (impl Read + Write)) -> io::Result<bool> {
        match self.0 {}
    }

    pub(super) fn farewell(&mut self, _socket: &mut (impl Read + Write)) {
        match self.0 {}
    }
}

pub(super) fn objection(_error: &io::Error) -> Option<String> {
    None
}
