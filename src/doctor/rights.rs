//! What a user has to be allowed, and what it means where it is not. `docs/operations.md` has the rules.

use super::Finding;
use crate::broker::{Said, rule};

/// What a member needs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Subscribe,
    Count,
    Name,
    Publish,
    Unsubscribe,
    Ping,
    List,
    Kill,
    Script,
    Token,
}

/// All of them; those that every lock needs come first.
pub(super) const RIGHTS: [Right; 10] = [
    Right::Subscribe,
    Right::Count,
    Right::Name,
    Right::Publish,
    Right::Unsubscribe,
    Right::Ping,
    Right::List,
    Right::Kill,
    Right::Script,
    Right::Token,
];

/// How a right stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Given,
    /// The command is not allowed.
    NoCommand,
    /// The command is, but not on this lock's channels or key.
    NoName,
    /// There is no such command: it was renamed, perhaps.
    Missing,
    /// The server does not say, and it cannot be tried without changing something.
    Unknown,
}

impl Standing {
    /// By an answer to the command itself, or to a dry run of it: that one refuses in a text.
    pub(super) fn of(said: &Said) -> Self {
        let words = match said {
            Said::Refused { code, words } if code == "NOPERM" => words.as_str(),
            Said::Refused { words, .. } => {
                let words = words.to_ascii_lowercase();
                let missing = words.contains("unknown command") || words.contains("not found");
                // Whatever else is wrong with it, it was let through.
                return if missing { Self::Missing } else { Self::Given };
            }
            Said::Text(text) if text.contains("no permissions") => text.as_str(),
            _ => return Self::Given,
        };
        match rule::is_about_names(words) {
            true => Self::NoName,
            false => Self::NoCommand,
        }
    }
}

impl Right {
    /// The rule that gives it.
    fn rule(self) -> &'static str {
        match self {
            Self::Subscribe => rule::SUBSCRIBE,
            Self::Count => rule::COUNT,
            Self::Name => rule::NAME,
            Self::Publish => rule::PUBLISH,
            Self::Unsubscribe => rule::UNSUBSCRIBE,
            Self::Ping => rule::PING,
            Self::List => rule::LIST,
            Self::Kill => rule::KILL,
            Self::Script => rule::SCRIPT,
            Self::Token => rule::TOKEN,
        }
    }

    /// What does not work without it.
    fn purpose(self) -> &'static str {
        match self {
            Self::Subscribe => "a lock is a subscription: none can be acquired",
            Self::Count => "nobody can tell whether a lock is free: none can be acquired",
            Self::Name => {
                "a member that falls silent could not be told from others: none is let in"
            }
            Self::Publish => "waiters cannot ask who holds, nor holders answer them",
            Self::Unsubscribe => "members can leave only by losing their connection",
            Self::Ping => {
                "a waiter that stood still cannot make sure that its grant is no old news"
            }
            Self::List | Self::Kill => "a holder that stands still is not passed: all wait for it",
            Self::Script => "waiters do not get on while somebody subscribes by pattern",
            Self::Token => "acquires that want a fencing token fail",
        }
    }

    /// Whether every lock needs it.
    fn is_essential(self) -> bool {
        !matches!(self, Self::List | Self::Kill | Self::Script | Self::Token)
    }

    fn finding(self, standing: &Standing, named: bool) -> Option<Finding> {
        let rule = self.rule();
        let name = if self == Self::Token { rule::KEY } else { rule::CHANNELS };
        let (found, mend) = match standing {
            Standing::Given => return None,
            Standing::Unknown => {
                let found = "whether this user has it cannot be told without changing something";
                let mend = "allow +acl|dryrun, or compare the user's rules with docs/operations.md";
                return Some(Finding::unclear(rule, found, self.purpose(), mend));
            }
            Standing::NoName if !named => {
                let found = "this user has it for some names only";
                let why = "whether a lock can be used depends on its name";
                return Some(Finding::unclear(rule, found, why, "examine a lock by its name"));
            }
            Standing::NoCommand => {
                ("this user may not run the command".to_owned(), format!("ACL SETUSER … {rule}"))
            }
            Standing::NoName => (
                "this user may run the command, but not with this lock's names".to_owned(),
                format!("ACL SETUSER … {name}"),
            ),
            Standing::Missing => (
                "the server does not know the command".to_owned(),
                "take its rename-command out of the server's settings".to_owned(),
            ),
        };
        Some(match self.is_essential() {
            true => Finding::danger(rule, found, self.purpose(), &mend),
            false => Finding::warning(rule, found, self.purpose(), &mend),
        })
    }
}

pub(super) fn judge(rights: &[(Right, Standing)], named: bool) -> Vec<Finding> {
    let missing: Vec<_> =
        rights.iter().filter_map(|(right, standing)| right.finding(standing, named)).collect();
    match missing.is_empty() {
        true => vec![Finding::fine("rights", "this user may do all that locks need")],
        false => missing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn text(words: &str) -> Said {
        Said::Text(words.to_owned())
    }

    fn refused(code: &str, words: &str) -> Said {
        Said::Refused { code: code.to_owned(), words: words.to_owned() }
    }

    /// As Redis 7.0.15 says it.
    #[test]
    fn a_dry_run_is_understood() {
        let command = "This user has no permissions to run the 'client|kill' command";
        let channel = "This user has no permissions to access the 'other' channel";
        let key = "This user has no permissions to access the 'jobs-fence' key";
        assert_eq!(Standing::of(&text("OK")), Standing::Given);
        assert_eq!(Standing::of(&text(command)), Standing::NoCommand);
        assert_eq!(Standing::of(&text(channel)), Standing::NoName);
        assert_eq!(Standing::of(&text(key)), Standing::NoName);
        let missing = refused("ERR", "Command 'client' not found");
        assert_eq!(Standing::of(&missing), Standing::Missing);
    }

    #[test]
    fn what_is_tried_is_understood() {
        let command = "this user has no permissions to run the 'publish' command";
        let channels =
            "this user has no permissions to access one of the channels used as arguments";
        assert_eq!(Standing::of(&refused("NOPERM", command)), Standing::NoCommand);
        assert_eq!(Standing::of(&refused("NOPERM", channels)), Standing::NoName);
        let unknown = refused("ERR", "unknown command 'PUBSUB', with args beginning with: ");
        assert_eq!(Standing::of(&unknown), Standing::Missing);
        // It was let through, and no more was wanted.
        assert_eq!(Standing::of(&refused("ERR", "syntax error")), Standing::Given);
        assert_eq!(Standing::of(&Said::Number(0)), Standing::Given);
    }

    fn severities(right: Right, standing: Standing, named: bool) -> Vec<Severity> {
        let found = judge(&[(Right::Ping, Standing::Given), (right, standing)], named);
        found.iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn what_every_lock_needs_is_worse_to_miss_than_the_rest() {
        use Standing::*;
        assert_eq!(severities(Right::Publish, NoCommand, false), [Severity::Danger]);
        assert_eq!(severities(Right::Count, Missing, false), [Severity::Danger]);
        assert_eq!(severities(Right::Kill, NoCommand, false), [Severity::Warning]);
        assert_eq!(severities(Right::Subscribe, NoName, true), [Severity::Danger]);
        assert_eq!(severities(Right::Subscribe, NoName, false), [Severity::Unclear]);
        assert_eq!(severities(Right::Token, Unknown, true), [Severity::Unclear]);
        assert_eq!(severities(Right::Token, Given, true), [Severity::Fine]);
    }
}
