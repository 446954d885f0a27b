//! The log of the library, on standard error.

use std::io::{self, Write};
use std::time::SystemTime;

use env_logger::{Builder, Env, Target};

use crate::output::plain;
use crate::pages::LOG_VARIABLE;
use crate::voice;

/// Shows what the environment asks for: nothing unless it asks, since the command says itself what a person
/// has to know.
pub fn start() {
    let mut builder = Builder::from_env(Env::new().filter_or(LOG_VARIABLE, "off"));
    builder.format(|buffer, record| {
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let level = record.level().as_str().to_ascii_lowercase();
        let line = plain(&portalock::log_line(record));
        writeln!(buffer, "portalock: {time} {level}: {line}")
    });
    builder.target(Target::Pipe(Box::new(Lines)));
    builder.init();
}

/// Where the log goes. The library's threads, which answer for a held lock, do not wait for a reader.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        voice::line(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
