//! Which server is meant.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use portalock::{Client, ClientOptions};

use crate::arguments::{Arguments, Command, Server, Tls};
use crate::exit;
use crate::failure::Failure;

/// Where the URL is looked for if no option names one.
pub const URL_VARIABLE: &str = "PORTALOCK_URL";
const DEFAULT_URL: &str = "redis://127.0.0.1:6379";
/// No URL is longer; a file that is, is something else.
const MAX_URL_BYTES: usize = 64 << 10;

/// The server's URL: of the options, the environment, or the default.
pub fn url(server: &Server) -> Result<String, Failure> {
    if let Some(url) = &server.url {
        return Ok(url.clone());
    }
    if let Some(path) = &server.url_file {
        return read(path);
    }
    match std::env::var(URL_VARIABLE) {
        Ok(url) if !url.is_empty() => Ok(url),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::new(exit::USAGE, format!("{URL_VARIABLE} is not valid UTF-8")))
        }
        _ => Ok(DEFAULT_URL.to_owned()),
    }
}

/// A client of the server that is meant. Nothing is connected yet.
pub fn client(arguments: &Arguments) -> Result<Client, Failure> {
    let named = match &arguments.command {
        Command::Doctor(doctor) => doctor.server.clone(),
        _ => None,
    };
    let url = named.map_or_else(|| url(&arguments.server), Ok)?;
    if url.starts_with("memory:") {
        let why =
            "a memory:// URL is of use inside one process only: others would not see the lock";
        return Err(Failure::new(exit::USAGE, why.to_owned()));
    }
    Ok(Client::new(&url, options(&arguments.server.tls)?)?)
}

fn options(tls: &Tls) -> Result<ClientOptions, Failure> {
    let mut options = ClientOptions::new();
    if let Some(file) = &tls.tls_ca {
        options.tls_ca_file(file);
    }
    match (&tls.tls_cert, &tls.tls_key) {
        (Some(certificate), Some(key)) => drop(options.tls_client_certificate(certificate, key)),
        (None, None) => {}
        _ => {
            let why = "--tls-cert and --tls-key go together".to_owned();
            return Err(Failure::new(exit::USAGE, why));
        }
    }
    if let Some(name) = &tls.tls_server_name {
        options.tls_server_name(name);
    }
    options.tls_insecure_no_verification(tls.tls_insecure);
    Ok(options)
}

/// The first line of a file, or of standard input for `-`.
fn read(path: &Path) -> Result<String, Failure> {
    let failed = |why: String| {
        Failure::new(
            exit::NO_INPUT,
            format!("the URL cannot be read from {}: {why}", path.display()),
        )
    };
    let line = match path.to_str() {
        Some("-") => first_line(io::stdin()),
        _ => File::open(path).and_then(first_line),
    };
    let line = String::from_utf8(line.map_err(|error| failed(error.to_string()))?)
        .map_err(|_| failed("it is not valid UTF-8".to_owned()))?;
    match line.trim() {
        "" => Err(failed("its first line is empty".to_owned())),
        url => Ok(url.to_owned()),
    }
}

/// Byte by byte: what follows the line on standard input is the command's.
fn first_line(source: impl AsFd) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_URL_BYTES && rustix::io::read(&source, &mut byte)? == 1 {
        if byte == *b"\n" {
            break;
        }
        line.push(byte[0]);
    }
    Ok(line)
}
