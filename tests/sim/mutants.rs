//! A simulator that never failed has proved nothing: known faults of the protocol, each caught within the
//! seeds of an ordinary run. Some of them only the explorer is sure to catch: what `NeverRecheck` leaves out,
//! counts and the other members' pings make up for here, `AloneDespitePing` needs a join in several steps,
//! `TakeSecondEcho` a ping that is published twice, and `TakeOldCount` and `TakeEarlyPongs` show in one seed of
//! some thousands.

use portalock::protocol::Mutant;

use crate::runs::{SEEDS, run};

fn is_caught(mutant: Mutant) {
    let caught = (1..=SEEDS).find_map(|seed| Some((seed, run(seed, Some(mutant)).violation?)));
    let (seed, what) = caught.unwrap_or_else(|| panic!("{mutant:?} is not caught"));
    println!("{mutant:?}: seed {seed}: {what}");
}

#[test]
fn known_faults_are_caught() {
    use Mutant::*;
    for mutant in [
        PromoteUnresolved,
        ForgetAsker,
        PingOverwritesPong,
        KeepGhosts,
        AskOnlyWhenFewer,
        ExpectMembers,
        LeaveInSilence,
        TakeOldPongs,
        ReadersBarge,
    ] {
        is_caught(mutant);
    }
}
