//! Members of a lock as a table.

use std::time::{Duration, UNIX_EPOCH};

use portalock::Holder;
use unicode_width::UnicodeWidthStr;

use crate::member;
use crate::output::{plain, span};

const HEADINGS: [&str; 7] = ["STATE", "MODE", "HOST", "PID", "SINCE", "FOR", "LABEL"];
/// In the place of what a member does not say.
const NONE: &str = "-";

/// In queue order: holders first, then waiters.
pub fn of(members: &[Holder], now_ms: u64) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(members.iter().map(|member| row(member, now_ms)));
    let wide = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<_> = (0..HEADINGS.len()).map(wide).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cell =
        |(text, width): (&String, &usize)| format!("  {text}{}", " ".repeat(width - text.width()));
    let cells: String = row.iter().zip(widths).map(cell).collect();
    format!("{}\n", cells.trim_end())
}

fn row(one: &Holder, now_ms: u64) -> [String; 7] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let seconds = |time: Duration| span(Duration::from_secs(time.as_secs()));
    [
        member::state(one.state).to_owned(),
        or_none(one.mode.or(one.wants).map(|mode| member::mode(mode).to_owned())),
        or_none(one.host.as_deref().map(plain)),
        or_none(one.pid.map(|pid| pid.to_string())),
        or_none(one.since_ms.and_then(time)),
        or_none(member::age(one, now_ms).map(seconds)),
        or_none(one.label.as_deref().map(plain).filter(|label| !label.is_empty())),
    ]
}

/// A time as a date, by UTC; `None` if no calendar has it.
fn time(ms: u64) -> Option<String> {
    // The last year with four digits.
    const END_MS: u64 = 253_402_300_799_000;
    let time = UNIX_EPOCH + Duration::from_millis(ms);
    (ms <= END_MS).then(|| humantime::format_rfc3339_seconds(time).to_string())
}

#[cfg(test)]
mod tests {
    use portalock::State;

    use super::*;
    use crate::member::tests::member;

    #[test]
    fn columns_stand_below_each_other() {
        let mut waiter = member("b", State::Waiting);
        (waiter.label, waiter.host) = (None, Some("日本".to_owned()));
        waiter.since_ms = Some(u64::MAX);
        let text = of(&[member("a", State::Held), waiter], 62_000);
        let lines: Vec<_> = text.lines().collect();
        let expected = [
            "  STATE    MODE       HOST  PID  SINCE                 FOR    LABEL",
            "  held     exclusive  host  7    1970-01-01T00:00:01Z  1m 1s  reporter",
            "  waiting  exclusive  日本  7    -                     0s     -",
        ];
        assert_eq!(lines, expected);
    }
}
