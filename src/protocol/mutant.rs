//! Known faults, to be switched on in tests: a checker that never failed has proved nothing.

/// One way to get the protocol wrong. Each was either made in an earlier draft of the rules or is
/// the obvious shortcut that somebody will one day want to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Take the lock before everyone counted has answered.
    PromoteUnresolved,
    /// Answer a ping without recording who asked.
    ForgetAsker,
    /// Record the asker late, over whatever it has said since.
    PingOverwritesPong,
    /// Keep members that were only seen before the own ping's echo.
    KeepGhosts,
    /// Ask again only when the count has fallen.
    AskOnlyWhenFewer,
    /// Take a late acknowledgement of an earlier ping for that of the present one.
    TakeOldCount,
    /// Expect as many answers as `PUBSUB NUMSUB` says, not as many as received the ping.
    ExpectMembers,
    /// Fall silent once the unsubscribe is written.
    LeaveInSilence,
    /// Count answers to an earlier ping.
    TakeOldPongs,
}
