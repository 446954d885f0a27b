//! A line of the log, with its fields.

use std::fmt::Write;

use log::Record;
use log::kv::{Key, Value, VisitSource};

/// A record of the log as one line: its words, and behind them its fields as ` key=value`. A value with spaces,
/// quotes, `=` or other than ASCII is in double quotes, and escaped as in Rust.
pub fn log_line(record: &Record) -> String {
    let mut line = Line(record.args().to_string());
    let _ = record.key_values().visit(&mut line);
    line.0
}

struct Line(String);

impl<'kvs> VisitSource<'kvs> for Line {
    fn visit_pair(
        &mut self,
        key: Key<'kvs>,
        value: Value<'kvs>,
    ) -> std::result::Result<(), log::kv::Error> {
        let text = value.to_string();
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
        // A name may hold anything, and a line is to remain one.
        let _ = match !text.is_empty() && text.bytes().all(is_plain) {
            true => write!(self.0, " {key}={text}"),
            false => write!(self.0, " {key}={text:?}"),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_behind_the_words_and_the_line_remains_one() {
        let fields = [
            ("channel", "nightly report\n"),
            ("holder", "0197a0"),
            ("state", "held"),
            ("none", ""),
        ];
        let line = log_line(
            &Record::builder()
                .args(format_args!("acquired"))
                .key_values(&fields.as_slice())
                .build(),
        );
        let wanted = r#"acquired channel="nightly report\n" holder=0197a0 state=held none="""#;
        assert_eq!(line, wanted);
    }
}
