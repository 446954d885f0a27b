//! What is said of the members of a lock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portalock::{Holder, Mode, State};

use crate::output::plain;

/// The time by this host's clock, in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// For how long a member has been in its state, by its own clock against ours.
pub fn age(member: &Holder, now_ms: u64) -> Option<Duration> {
    member.since_ms.map(|since| Duration::from_millis(now_ms.saturating_sub(since)))
}

/// A member for a sentence: its label, its host and its process, as far as it says so.
pub fn who(member: &Holder) -> String {
    let place = match (&member.host, member.pid) {
        (Some(host), Some(pid)) => Some(format!("{}:{pid}", plain(host))),
        (Some(host), None) => Some(plain(host)),
        (None, Some(pid)) => Some(format!("process {pid}")),
        (None, None) => None,
    };
    let label = member.label.as_deref().filter(|label| !label.is_empty()).map(plain);
    match (label, place) {
        (Some(label), Some(place)) => format!("{label} ({place})"),
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) if member.foreign => "a portalocker".to_owned(),
        (None, None) => "one that does not say who it is".to_owned(),
    }
}

/// The word for a state.
pub fn state(state: State) -> &'static str {
    match state {
        State::Held => "held",
        State::Waiting => "waiting",
        State::Leaving => "leaving",
    }
}

/// The word for a mode.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn member(id: &str, state: State) -> Holder {
        Holder {
            id: id.to_owned(),
            mode: (state == State::Held).then_some(Mode::Exclusive),
            wants: Some(Mode::Exclusive),
            state,
            elected: None,
            legacy: false,
            foreign: false,
            host: Some("host".to_owned()),
            pid: Some(7),
            label: Some("reporter".to_owned()),
            since_ms: Some(1000),
        }
    }

    #[test]
    fn it_is_called_by_what_it_says_of_itself() {
        let mut one = member("a", State::Held);
        assert_eq!(who(&one), "reporter (host:7)");
        one.label = Some("a\x1b[2J".to_owned());
        one.host = None;
        assert_eq!(who(&one), "a\u{fffd}[2J (process 7)");
        (one.label, one.pid) = (None, None);
        assert_eq!(who(&one), "one that does not say who it is");
        one.foreign = true;
        assert_eq!(who(&one), "a portalocker");
        assert_eq!(age(&one, 500), Some(Duration::ZERO));
    }
}
