//! A non-blocking socket, and how it is opened, tuned and waited for.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use super::endpoint::{Endpoint, Place, Route};
use super::link::Transport;
use super::memory::{Guest, Memory};
use super::tls::Session;
use crate::fork::{Generation, sockets};

/// A socket of this process. In a child, where [`sockets`] has closed it already, it is forgotten: its
/// number may belong to something else by then.
pub(crate) struct OwnSocket {
    socket: ManuallyDrop<Socket>,
    generation: Generation,
}

impl OwnSocket {
    /// Opens one and takes it into the list in one step, so that no fork comes in between.
    fn open(domain: Domain) -> io::Result<Self> {
        let mut sockets = sockets();
        let socket = ManuallyDrop::new(Socket::new(domain, Type::STREAM, None)?);
        sockets.push(socket.as_raw_fd());
        Ok(Self { socket, generation: Generation::now() })
    }

    /// Two that are connected with each other.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let mut sockets = sockets();
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        let generation = Generation::now();
        let [one, other] = [one, other].map(|socket| {
            sockets.push(socket.as_raw_fd());
            Self { socket: ManuallyDrop::new(socket), generation }
        });
        Ok((one, other))
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let mut sockets = sockets();
        if self.generation.is_ours() {
            let number = self.socket.as_raw_fd();
            sockets.retain(|other| *other != number);
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.socket) };
        }
    }
}

impl Deref for OwnSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl AsRawFd for OwnSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A connection to a server, as the system knows it.
pub(crate) struct Wire {
    socket: Arc<OwnSocket>,
    /// Whether the socket is; with TLS there is more to do.
    connected: bool,
    tcp: bool,
    patience: Cell<Duration>,
    /// Who is at the other end, if that is in this process.
    guest: Option<Guest>,
    tls: Option<Box<Session>>,
}

impl Wire {
    /// Begins to connect, twice where the server speaks RESP2 only; nothing waits.
    pub(crate) fn dial(endpoint: &Endpoint, route: &Route) -> io::Result<(Self, Option<Self>)> {
        let first = Self::dial_one(endpoint, route)?;
        let second = endpoint.dialect().is_resp2().then(|| Self::dial_one(endpoint, route));
        Ok((first, second.transpose()?))
    }

    fn dial_one(endpoint: &Endpoint, route: &Route) -> io::Result<Self> {
        let tls = endpoint.tls().map(|tls| tls.begin(&route.host)).transpose()?.map(Box::new);
        let (domain, tcp) = match &route.place {
            Place::Memory(memory) => return Self::enter(memory),
            Place::Tcp(address) => (Domain::for_address(*address), true),
            Place::Unix(_) => (Domain::UNIX, false),
        };
        let socket = OwnSocket::open(domain)?;
        socket.set_nonblocking(true)?;
        if tcp {
            socket.set_tcp_nodelay(true)?;
        }
        let connected = match socket.connect(&address_of(&route.place)?) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
            Err(error) => return Err(error),
        };
        let patience = Cell::new(Duration::ZERO);
        Ok(Self { socket: Arc::new(socket), connected, tcp, patience, tls, guest: None })
    }

    fn enter(memory: &Memory) -> io::Result<Self> {
        let (guest, socket) = memory.enter()?;
        socket.set_nonblocking(true)?;
        let patience = Cell::new(Duration::ZERO);
        Ok(Self {
            socket: Arc::new(socket),
            connected: true,
            tcp: false,
            patience,
            tls: None,
            guest: Some(guest),
        })
    }

    /// Has the system give a peer up that has not acknowledged anything for about so long: what health
    /// checks find out sooner, they find out, and what nobody checks is found out all the same.
    pub(crate) fn tune(&self, patience: Duration) {
        if !self.tcp || self.patience.replace(patience) == patience {
            return;
        }
        let probes = patience.clamp(Duration::from_secs(4), Duration::from_secs(600)) / 4;
        let keepalive =
            TcpKeepalive::new().with_time(probes * 2).with_interval(probes).with_retries(2);
        let tuned = self.socket.set_tcp_keepalive(&keepalive);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let tuned = tuned.and_then(|()| self.socket.set_tcp_user_timeout(Some(patience)));
        if let Err(error) = tuned {
            log::warn!(error:%; "the connection's keepalive cannot be set");
        }
    }
}

impl Transport for Wire {
    fn is_connected(&self) -> bool {
        self.connected && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    fn finish_connect(&mut self) -> io::Result<()> {
        if !self.connected {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.connected = self.socket.peer_addr().is_ok();
        }
        match &mut self.tls {
            Some(tls) if self.connected => tls.shake_hands(&mut Quiet(&self.socket)),
            _ => Ok(()),
        }
    }

    fn wants_write(&self) -> bool {
        !self.connected || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    fn push(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.push(&mut Quiet(&self.socket)).map(drop),
            None => Ok(()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(guest) = &self.guest {
            return guest.say(bytes);
        }
        let mut socket = Quiet(&self.socket);
        match &mut self.tls {
            Some(tls) => tls.send(&mut socket, bytes),
            None => socket.write(bytes),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = Quiet(&self.socket);
        let outcome = match &mut self.tls {
            Some(tls) => tls.receive(&mut socket, buffer),
            None => socket.read(buffer),
        };
        if let Some(guest) = &self.guest {
            guest.has_read();
        }
        outcome
    }

    fn close(&mut self) {
        if let Some(tls) = &mut self.tls
            && self.connected
        {
            tls.farewell(&mut Quiet(&self.socket));
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        self.guest = None;
    }
}

/// Reads and writes a socket without raising `SIGPIPE`.
struct Quiet<'a>(&'a Socket);

impl Read for Quiet<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn address_of(place: &Place) -> io::Result<SockAddr> {
    match place {
        Place::Memory(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        Place::Tcp(address) => Ok((*address).into()),
        Place::Unix(path) => SockAddr::unix(path),
    }
}

/// Those of one connection, to be polled. They stay open as long as anybody has them.
#[derive(Clone)]
pub(crate) struct Sockets {
    first: Arc<OwnSocket>,
    second: Option<Arc<OwnSocket>>,
}

impl Sockets {
    pub(crate) fn of(first: &Wire, second: Option<&Wire>) -> Self {
        Self { first: first.socket.clone(), second: second.map(|wire| wire.socket.clone()) }
    }

    #[cfg(test)]
    pub(crate) fn one(socket: OwnSocket) -> Self {
        Self { first: Arc::new(socket), second: None }
    }

    /// The one that follows channels.
    pub(crate) fn first(&self) -> Arc<OwnSocket> {
        self.first.clone()
    }

    /// Each with what belongs to it.
    pub(crate) fn with<T>(&self, [first, second]: [T; 2]) -> impl Iterator<Item = (&Socket, T)> {
        let second = self.second.as_deref().map(|socket| (&**socket, second));
        std::iter::once((&**self.first, first)).chain(second)
    }
}

/// Sleeps until one of the sockets can be read (or written, if wanted), or the other can be read, and tells
/// whether that is it; at most so long, `None` for ever.
pub(crate) fn await_any(
    sockets: &Sockets,
    write: [bool; 2],
    other: Option<&OwnSocket>,
    span: Option<Duration>,
) -> bool {
    // What has no descriptor is passed over.
    let mut entries = [entry(-1, false); 3];
    for (place, (socket, write)) in entries.iter_mut().zip(sockets.with(write)) {
        *place = entry(socket.as_raw_fd(), write);
    }
    entries[2] = entry(other.map_or(-1, AsRawFd::as_raw_fd), false);
    poll(&mut entries, span);
    entries[2].revents != 0
}

/// Sleeps until a descriptor can be read, at most so long; `None` for ever. May wake early.
pub(crate) fn await_descriptor(descriptor: RawFd, span: Option<Duration>) {
    poll(&mut [entry(descriptor, false)], span);
}

fn entry(fd: RawFd, write: bool) -> libc::pollfd {
    let events = libc::POLLIN | if write { libc::POLLOUT } else { 0 };
    libc::pollfd { fd, events, revents: 0 }
}

fn poll(entries: &mut [libc::pollfd], span: Option<Duration>) {
    let span = span.map(|span| libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: span.subsec_nanos().into(),
    });
    let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: valid entries, a valid time or none, no signal mask.
    unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, span, std::ptr::null())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_silent_peer_is_given_up_after_about_the_patience() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint::parse(&format!("redis://{address}"), &Default::default()).unwrap();
        let [route] = endpoint.routes(None).unwrap().try_into().unwrap();
        let (wire, _) = Wire::dial(&endpoint, &route).unwrap();
        for seconds in [20, 11, 4] {
            let patience = Duration::from_secs(seconds);
            wire.tune(patience);
            let socket = &wire.socket;
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(patience));
            let idle = socket.tcp_keepalive_time().unwrap();
            let probing = socket.tcp_keepalive_interval().unwrap();
            let retries = socket.tcp_keepalive_retries().unwrap();
            let total = idle + probing * retries;
            assert!(total <= patience && total * 2 > patience, "{total:?} of {patience:?}");
        }
    }

    #[test]
    fn a_socket_is_on_the_list_as_long_as_it_is_open() {
        let socket = OwnSocket::open(Domain::UNIX).unwrap();
        let number = socket.as_raw_fd();
        assert!(sockets().contains(&number));
        drop(socket);
        assert!(!sockets().contains(&number));
    }
}
