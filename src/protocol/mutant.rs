//! Known faults, to be switched on in tests: a checker that never failed has proved nothing.

/// One way to get the protocol wrong. Each was either made in an earlier draft of the rules or is
/// the obvious shortcut that somebody will one day want to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Take the lock before everyone counted has answered.
    PromoteUnresolved,
    /// Answer a ping without recording who asked.
    ForgetAsker,
    /// Record the asker late, over what it has answered since.
    PingOverwritesPong,
    /// Keep members that were only seen before the own ping's echo.
    KeepGhosts,
    /// Ask an unresolved probe again only when the count has fallen.
    AskOnlyWhenFewer,
    /// Never make sure that those ahead still answer.
    NeverRecheck,
    /// Take a late acknowledgement of an earlier ping for that of the present one.
    TakeOldCount,
    /// Expect as many answers as `PUBSUB NUMSUB` says, not as many as received the ping.
    ExpectMembers,
    /// Fall silent once the unsubscribe is written.
    LeaveInSilence,
    /// Count answers to an earlier ping, which come before the present one's echo.
    TakeOldPongs,
    /// Count answers to a ping that nobody has heard yet.
    TakeEarlyPongs,
    /// Empty the roster whenever the own ping comes by.
    TakeSecondEcho,
    /// Take the lock on a count of one although somebody has pinged since the subscribe.
    AloneDespitePing,
    /// Let readers overtake waiting writers.
    ReadersBarge,
    /// Tell strangers that one waits, whoever holds.
    PendingToStrangers,
}
