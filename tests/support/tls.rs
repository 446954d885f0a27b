//! Certificates that are made here, and servers that show them.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::{Server, free_port};

/// An authority and the directory with the files that it has made.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Certifies a name; the files of the certificate and of its key.
    pub fn certify(
        &self,
        name: &str,
        change: impl Fn(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}

/// A server that speaks TLS at a port of its own.
pub struct Secure {
    pub server: Server,
    pub port: u16,
}

impl Secure {
    pub fn start(authority: &Authority, auth_clients: &str) -> Self {
        Self::showing(authority, &authority.certify("127.0.0.1", |_| {}), auth_clients)
    }

    pub fn showing(authority: &Authority, files: &(PathBuf, PathBuf), auth_clients: &str) -> Self {
        let port = free_port();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let server = Server::with(&[
            ("tls-port", &port.to_string()),
            ("tls-cert-file", &text(&files.0)),
            ("tls-key-file", &text(&files.1)),
            ("tls-ca-cert-file", &text(&authority.ca())),
            ("tls-auth-clients", auth_clients),
        ]);
        Self { server, port }
    }

    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }
}
