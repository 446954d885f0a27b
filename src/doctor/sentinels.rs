//! Judges what the sentinels of a URL have answered.

use super::Finding;
use crate::broker::Attendance;

/// So many lose none of their power by the failure of one.
const ENOUGH: u64 = 3;

/// `roll`: each sentinel by its address, and what came of asking it.
pub(crate) fn judge(roll: &[(String, Attendance)]) -> Finding {
    let good = |told: &Attendance| matches!(told, Attendance::Backed { .. });
    let present = roll.iter().filter(|(_, told)| good(told)).count();
    let found = format!("{present} of {} in the URL answer and see a majority", roll.len());
    let known = roll.iter().filter_map(|(_, told)| told.sentinels()).max();
    let bad: Vec<_> = roll.iter().filter(|(_, told)| !good(told)).collect();
    if present == 0 {
        let found = format!("{found}: {}", list(&bad));
        return Finding::danger(
            "sentinels",
            found,
            "nobody can tell which server is the master: locks are lost, and cannot be had",
            "start the sentinels, a majority at the least, and see that this host reaches them",
        );
    }
    if !bad.is_empty() {
        let found = format!("{found}; {}", list(&bad));
        return Finding::warning(
            "sentinels",
            found,
            "each that is missing brings the point nearer at which no master is believed in, and costs \
             new clients half a second",
            "start it, or take it out of the URL",
        );
    }
    if known.is_some_and(|known| known < ENOUGH) {
        return Finding::warning(
            "sentinels",
            format!("there are {} of them", known.unwrap_or_default()),
            "the failure of one, or of the network to it, leaves no majority: all locks are lost with it",
            "run three at the least, on hosts that fail apart from each other",
        );
    }
    Finding::fine("sentinels", found)
}

fn list(bad: &[&(String, Attendance)]) -> String {
    let of = |(place, told): &&(String, Attendance)| match told {
        Attendance::Away(error) => format!("{place}: {error}"),
        Attendance::Unknown => format!("{place} does not know the master"),
        Attendance::CutOff { .. } => format!("{place} sees no majority"),
        Attendance::Backed { .. } => place.clone(),
    };
    bad.iter().map(of).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use crate::error::{Error, Status};

    #[test]
    fn what_is_missing_is_named() {
        let away = || Attendance::Away(Error::new(Status::Refused, "refused"));
        let backed = |sentinels| Attendance::Backed { sentinels };
        for (roll, severity, part) in [
            (vec![backed(Some(3)), backed(Some(3))], Severity::Fine, "2 of 2"),
            (vec![backed(None)], Severity::Fine, "1 of 1"),
            (vec![backed(Some(1))], Severity::Warning, "there are 1"),
            (vec![backed(Some(3)), away()], Severity::Warning, "h1: refused"),
            (vec![backed(Some(3)), Attendance::Unknown], Severity::Warning, "h1 does not know"),
            (
                vec![Attendance::CutOff { sentinels: Some(3) }, away()],
                Severity::Danger,
                "h0 sees no",
            ),
        ] {
            let named = roll.into_iter().enumerate().map(|(at, told)| (format!("h{at}"), told));
            let finding = judge(&named.collect::<Vec<_>>());
            assert_eq!(finding.severity, severity, "{finding:?}");
            assert!(finding.found.contains(part), "{finding:?}");
        }
    }
}
