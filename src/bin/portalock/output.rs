//! What the person is told.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use crate::failure::Failure;
use crate::{exit, secret, voice};

/// Writes to standard output. Whoever reads it may have gone, which is no failure of ours; `false` then.
///
/// # Errors
/// It cannot be written to: the disk is full, say.
pub fn print(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    is_read(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What comes of having written to standard output.
pub fn is_read(outcome: io::Result<()>) -> Result<bool, Failure> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(
            exit::NO_OUTPUT,
            format!("standard output cannot be written to: {error}"),
        )),
    }
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

/// How many columns help has to fit into, if anybody says so: looked for where clap looks.
pub fn columns() -> Option<usize> {
    let own = columns_of(io::stdout()).or_else(|| columns_of(io::stderr()));
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    own.or_else(|| columns_of(io::stdin())).or_else(variable)
}

fn columns_of(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| size.ws_col.into())
}

fn is_dumb() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    matches!(term.as_str(), "" | "dumb")
}

/// A text without what a terminal would obey, and without what is not seen or has the rest seen in another
/// order: other hosts choose labels and names.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect()
}

fn is_odd(c: char) -> bool {
    // Those that join letters stay: scripts, and pictures of more than one person, need them.
    let is_unseen = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_unseen
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

    #[test]
    fn what_turns_a_text_around_or_is_not_seen_is_taken_out() {
        let odd = "\u{202e}a\u{2028}b\u{2029}c\u{200b}d\u{2066}e\u{feff}f\u{e0041}";
        let shown = "\u{fffd}a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}";
        assert_eq!(plain(odd), shown);
        for fine in ["日本", "e\u{301}", "\u{645}\u{200c}\u{627}", "👨\u{200d}👩"] {
            assert_eq!(plain(fine), fine);
        }
    }
}
