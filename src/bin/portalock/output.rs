//! What the person is told.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::{secret, voice};

/// Writes to standard output. Whoever reads it may have gone, which is no failure of ours; `false` then.
pub fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Says something to the person, on standard error, and never waits for a reader.
pub fn say(text: &str) {
    voice::line(format!("portalock: {}\n", plain(&secret::conceal(text))));
}

/// Whether standard error is a terminal that can erase a line.
pub fn is_lively() -> bool {
    io::stderr().is_terminal() && !is_dumb()
}

/// Whether standard output is one.
pub fn stdout_is_lively() -> bool {
    io::stdout().is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    matches!(term.as_str(), "" | "dumb")
}

/// A text without what a terminal would obey: other hosts choose labels and names.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A lock's name, as it stands in sentences.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", plain(name))
}

/// A span of time: milliseconds while it is short, whole seconds once it is long.
pub fn span(span: Duration) -> String {
    let kept = match span < Duration::from_secs(1) {
        true => Duration::from_millis(span.as_millis().try_into().unwrap_or_default()),
        false => Duration::from_secs(span.as_secs()),
    };
    humantime::format_duration(kept).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_taken_out() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{9b}é"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}é");
    }
}
