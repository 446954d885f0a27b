//! The ACL rules that a user needs, and which of them a refusal is about.

use super::reply::Expect;

pub(crate) const SUBSCRIBE: &str = "+subscribe";
pub(crate) const UNSUBSCRIBE: &str = "+unsubscribe";
pub(crate) const PUBLISH: &str = "+publish";
pub(crate) const COUNT: &str = "+pubsub|numsub";
pub(crate) const NAME: &str = "+client|setname";
pub(crate) const PING: &str = "+ping";
pub(crate) const LIST: &str = "+client|list";
pub(crate) const KILL: &str = "+client|kill";
pub(crate) const SCRIPT: &str = "+eval";
pub(crate) const TOKEN: &str = "+incr";
pub(crate) const GUARD: &str = "+persist";
pub(crate) const DATABASE: &str = "+select";
/// `NAME` stands for the lock's name, or for the start of several.
pub(crate) const CHANNELS: &str = "&NAME*";
pub(crate) const KEY: &str = "~NAME*-fence";

/// What takes the place of some of these in a cluster. A name that has braces itself may need others.
const IN_CLUSTER: [(&str, &str); 6] = [
    (SUBSCRIBE, "+ssubscribe"),
    (UNSUBSCRIBE, "+sunsubscribe"),
    (PUBLISH, "+spublish"),
    (COUNT, "+pubsub|shardnumsub"),
    (CHANNELS, "&NAME* &{NAME*}~*"),
    (KEY, "~{NAME*}~fence"),
];

/// Whether a refusal is about a channel or key, and not about the command itself.
pub(crate) fn is_about_names(words: &str) -> bool {
    words.contains("access")
}

/// The rule whose lack had a command refused with these words.
pub(super) fn missing(expect: Expect, words: &str, in_cluster: bool) -> Option<&'static str> {
    let rule = missing_of_one(expect, words)?;
    let other = IN_CLUSTER.iter().find(|(plain, _)| in_cluster && *plain == rule);
    Some(other.map_or(rule, |(_, sharded)| sharded))
}

fn missing_of_one(expect: Expect, words: &str) -> Option<&'static str> {
    match (is_about_names(words), expect) {
        (true, Expect::Token | Expect::Guard) => Some(KEY),
        (true, _) => Some(CHANNELS),
        (false, _) => command_rule(expect),
    }
}

fn command_rule(expect: Expect) -> Option<&'static str> {
    match expect {
        Expect::Login => Some(DATABASE),
        Expect::Done => Some(NAME),
        Expect::Word | Expect::Receivers(_) => Some(PUBLISH),
        Expect::Subscribed(_) => Some(SUBSCRIBE),
        Expect::Dropped(_) | Expect::Left(_) => Some(UNSUBSCRIBE),
        Expect::Members(_) | Expect::Followed => Some(COUNT),
        Expect::ExactMembers(_) => Some(SCRIPT),
        Expect::Token => Some(TOKEN),
        Expect::Guard => Some(GUARD),
        Expect::Clients => Some(LIST),
        Expect::Killed => Some(KILL),
        Expect::Alive => Some(PING),
        Expect::Hello
        | Expect::Role
        | Expect::Greeting
        | Expect::Courtesy
        | Expect::Favour
        | Expect::Question => None,
    }
}
