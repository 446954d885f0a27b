//! Settings of clients and locks, with their ranges.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result, Status};
use crate::protocol::Mode;

/// The longest span that can be asked for: a year.
pub const MAX_SPAN: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest label, in bytes.
pub const MAX_LABEL_BYTES: usize = 256;

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As the lock's options say.
    Default,
    /// One attempt: join the queue, learn who is there, and leave if somebody comes first.
    Once,
    /// So long.
    For(Duration),
    /// Without a bound.
    Forever,
}

/// How a client connects.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_size: usize,
    pub(crate) shared_connection: bool,
    pub(crate) tls: TlsOptions,
}

/// How a `rediss://` URL is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) ca_file: Option<PathBuf>,
    /// The certificate's file and the key's.
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) server_name: Option<String>,
    pub(crate) unverified: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            pool_size: 8,
            shared_connection: false,
            tls: TlsOptions::default(),
        }
    }
}

impl ClientOptions {
    /// The defaults: 5 s to connect, 8 warm connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long one attempt to connect and log in may take: 1 ms to a year, 5 s unless set.
    pub fn connect_timeout(&mut self, span: Duration) -> Result<&mut Self> {
        self.connect_timeout = positive("connect_timeout", span)?;
        Ok(self)
    }

    /// How many unused connections are kept open for later acquires: 0 to 1024, 8 unless set.
    pub fn pool_size(&mut self, connections: usize) -> Result<&mut Self> {
        if connections > 1024 {
            return Err(invalid("pool_size is at most 1024"));
        }
        self.pool_size = connections;
        Ok(self)
    }

    /// Whether all locks of the client live on one connection; no unless set. Many locks need few
    /// connections then, and one loss is the loss of all. Locks of the client that have the same name stand
    /// in line among themselves. Portalocker cannot end such a connection when it falls silent, since its
    /// name tells nothing of the locks; members of this library can.
    pub fn shared_connection(&mut self, yes: bool) -> &mut Self {
        self.shared_connection = yes;
        self
    }

    /// The PEM file of those authorities whose certificates a server with a `rediss://` URL may show,
    /// instead of those that the system trusts. This file and the next two are read once, by
    /// [`Client::new`](crate::Client::new), which refuses them with `Invalid`, as it does every setting
    /// for TLS with another URL.
    pub fn tls_ca_file(&mut self, file: impl AsRef<Path>) -> &mut Self {
        self.tls.ca_file = Some(file.as_ref().to_owned());
        self
    }

    /// The PEM files of the certificate, with what leads from it to an authority, and of its private key,
    /// that are shown to a server that asks for them.
    pub fn tls_client_certificate(
        &mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> &mut Self {
        let files = (certificate.as_ref().to_owned(), key.as_ref().to_owned());
        self.tls.client_certificate = Some(files);
        self
    }

    /// The host name or IP address that the server's certificate has to be for, instead of the URL's.
    pub fn tls_server_name(&mut self, name: &str) -> &mut Self {
        self.tls.server_name = Some(name.to_owned());
        self
    }

    /// Whether any certificate of the server is accepted; no unless set. Whoever is on the way to the
    /// server can then read and change everything, the password first: for trials only.
    pub fn tls_insecure_no_verification(&mut self, yes: bool) -> &mut Self {
        self.tls.unverified = yes;
        self
    }
}

/// How a lock is acquired and kept.
#[derive(Clone, Debug)]
pub struct LockOptions {
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) unavailable_timeout: Duration,
    pub(crate) check_interval: Duration,
    pub(crate) fail_when_locked: bool,
    pub(crate) health_check_interval: Duration,
    pub(crate) fencing: bool,
    pub(crate) label: Option<String>,
    pub(crate) disclose: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Exclusive,
            wait: Wait::For(Duration::from_secs(5)),
            unavailable_timeout: Duration::from_secs(1),
            check_interval: Duration::from_millis(250),
            fail_when_locked: false,
            health_check_interval: Duration::from_secs(10),
            fencing: false,
            label: None,
            disclose: true,
        }
    }
}

impl LockOptions {
    /// The defaults, equal to portalocker's where it has them.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long an acquire waits when the call does not say: 5 s unless set.
    pub fn timeout(&mut self, wait: Wait) -> Result<&mut Self> {
        if let Wait::For(span) = wait {
            bounded("timeout", span)?;
        }
        if wait == Wait::Default {
            return Err(invalid("the default timeout has to be a span, one attempt or forever"));
        }
        self.wait = wait;
        Ok(self)
    }

    /// How long a member may stay silent before it is taken for dead: 1 ms to a year, 1 s unless set.
    pub fn unavailable_timeout(&mut self, span: Duration) -> Result<&mut Self> {
        self.unavailable_timeout = positive("unavailable_timeout", span)?;
        Ok(self)
    }

    /// How long a waiter stays off the channel at most when a foreign writer comes first: once to three
    /// times this. 1 ms to a year, 250 ms unless set. Without foreign members it plays no part.
    pub fn check_interval(&mut self, span: Duration) -> Result<&mut Self> {
        self.check_interval = positive("check_interval", span)?;
        Ok(self)
    }

    /// How often a held lock is checked, by a message that has to come back from the server: 100 ms to
    /// a year, 10 s unless set, zero for never. It has to be back within the interval or the
    /// unavailable timeout, whichever is shorter, or the lock is lost.
    pub fn health_check_interval(&mut self, span: Duration) -> Result<&mut Self> {
        if !span.is_zero() && span < Duration::from_millis(100) {
            return Err(invalid("health_check_interval is at least 100 ms, or zero for never"));
        }
        self.health_check_interval = bounded("health_check_interval", span)?;
        Ok(self)
    }

    /// Whether every exclusive grant draws a fencing token, a number that only rises, from the key
    /// `<name>-fence`; no unless set. Portalocker 4.2 and newer draw from the same key.
    pub fn fencing(&mut self, yes: bool) -> &mut Self {
        self.fencing = yes;
        self
    }

    /// Whether an acquire gives up at once when somebody else holds the lock, whatever its timeout;
    /// no unless set.
    pub fn fail_when_locked(&mut self, yes: bool) -> &mut Self {
        self.fail_when_locked = yes;
        self
    }

    /// The mode of acquires that do not name one: exclusive unless set.
    pub fn mode(&mut self, mode: Mode) -> &mut Self {
        self.mode = mode;
        self
    }

    /// A text of up to 256 bytes that is shown to whoever asks who holds the lock.
    pub fn label(&mut self, label: &str) -> Result<&mut Self> {
        if label.len() > MAX_LABEL_BYTES {
            return Err(invalid("a label has at most 256 bytes"));
        }
        self.label = Some(label.to_owned());
        Ok(self)
    }

    /// Whether host name, process id, label and time are shown to whoever asks; yes unless set.
    pub fn disclose(&mut self, yes: bool) -> &mut Self {
        self.disclose = yes;
        self
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Status::Invalid, message)
}

fn bounded(what: &str, span: Duration) -> Result<Duration> {
    if span > MAX_SPAN {
        return Err(invalid(format!("{what} is at most a year")));
    }
    Ok(span)
}

fn positive(what: &str, span: Duration) -> Result<Duration> {
    if span < Duration::from_millis(1) {
        return Err(invalid(format!("{what} is at least 1 ms")));
    }
    bounded(what, span)
}
