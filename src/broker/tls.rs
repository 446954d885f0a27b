//! TLS over a non-blocking socket, by rustls.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::error::{Error, Result, Status};
use crate::options::TlsOptions;

/// How a client speaks TLS: its files are read, once.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    /// Whom the certificate has to be for, instead of the host.
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files that the options name.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Status::Internal, format!("no TLS: {error}")))?;
        let verifier: Arc<dyn ServerCertVerifier> = if options.unverified {
            Arc::new(Anybody(provider.clone()))
        } else {
            let roots = Arc::new(roots(options.ca_file.as_deref())?);
            WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| Error::new(Status::Internal, format!("no TLS: {error}")))?
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match &options.client_certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let secret = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| unreadable("private key", key, &error))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| {
                    let (certificate, key) = (certificate.display(), key.display());
                    let text = format!("{certificate} and {key} do not go together: {error}");
                    Error::new(Status::Invalid, text)
                })?
            }
        };
        let name = options.server_name.as_deref().map(server_name).transpose()?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Begins to speak with a host; nothing is sent.
    pub(super) fn begin(&self, host: &str) -> io::Result<Session> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(io::Error::other)?,
        };
        let connection = ClientConnection::new(self.config.clone(), name).map_err(failure)?;
        Ok(Session { connection })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Checks a name that a certificate can be for.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        Error::new(Status::Invalid, format!("no certificate can be for the server name {name:?}"))
    })
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // Systems ship some that no longer parse: those are passed over.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let text =
                "the system has no certificates of authorities; tls_ca_file names another file";
            return Err(Error::new(Status::Tls, text));
        }
        return Ok(roots);
    };
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unreadable("certificate", path, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable("certificate", path, &error))?;
    if found.is_empty() {
        return Err(unreadable("certificate", path, &"it holds none in PEM form"));
    }
    Ok(found)
}

fn unreadable(what: &str, path: &Path, error: &dyn fmt::Display) -> Error {
    let text = format!("the {what} in {} cannot be used: {error}", path.display());
    Error::new(Status::Invalid, text)
}

/// One connection's state. Nothing in here waits.
pub(super) struct Session {
    connection: ClientConnection,
}

impl Session {
    /// Whether the handshake is not over.
    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether something waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Goes on with the handshake as far as the socket allows.
    pub(super) fn shake_hands(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        while self.connection.is_handshaking() {
            if !self.push(socket)? || !self.pull(socket)? {
                return Ok(());
            }
        }
        self.push(socket).map(drop)
    }

    /// Takes some bytes and writes what the socket takes; the rest follows by [`push`](Self::push).
    pub(super) fn send(
        &mut self,
        socket: &mut (impl Read + Write),
        bytes: &[u8],
    ) -> io::Result<usize> {
        let count = self.connection.writer().write(bytes)?;
        self.push(socket)?;
        match count {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Reads. Less than the buffer takes is all that was received and decrypted; the socket may have more.
    pub(super) fn receive(
        &mut self,
        socket: &mut (impl Read + Write),
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                // The replies tell where they end: to end without a farewell is no attack on them.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if !self.pull(socket)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // An answer to a renewal of the keys, say.
            self.push(socket)?;
        }
    }

    /// Writes what waits; `false` if the socket takes no more.
    pub(super) fn push(&mut self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads once from the socket and decrypts; `false` if there is nothing to read.
    fn pull(&mut self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        match self.connection.read_tls(socket) {
            Ok(0) if self.connection.is_handshaking() => {
                let text = "the server ended the connection in the TLS handshake";
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        self.connection.process_new_packets().map_err(|error| {
            // Tells the server why; best effort.
            let _ = self.connection.write_tls(socket);
            failure(error)
        })?;
        Ok(true)
    }

    /// Says farewell, as far as that can be done at once.
    pub(super) fn farewell(&mut self, socket: &mut (impl Read + Write)) {
        self.connection.send_close_notify();
        let _ = self.push(socket);
    }
}

fn failure(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// What TLS has against a connection, in words; `None` where something else ended it.
pub(super) fn objection(error: &io::Error) -> Option<String> {
    use rustls::Error::*;
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        InvalidCertificate(fault) => certificate_fault(fault),
        InvalidMessage(_) => "the server does not speak TLS there".into(),
        AlertReceived(alert) => format!("the server refused the TLS connection: {alert:?}"),
        other => format!("TLS failed: {other}"),
    })
}

fn certificate_fault(fault: &CertificateError) -> String {
    use CertificateError::*;
    match fault {
        // Of an authority that has the name of one that is trusted, and not its key.
        UnknownIssuer | BadSignature => {
            "the server's certificate is of no authority that is trusted here".into()
        }
        Expired | ExpiredContext { .. } => "the server's certificate has expired".into(),
        NotValidYet | NotValidYetContext { .. } => {
            "the server's certificate is not valid yet".into()
        }
        NotValidForName => "the server's certificate is for another name".into(),
        NotValidForNameContext { expected, .. } => {
            format!("the server's certificate is not for {:?}", expected.to_str())
        }
        other => format!("the server's certificate cannot be accepted: {other}"),
    }
}

/// Takes every certificate; what is signed with its key is still checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
