//! What a server's answers mean for locks. `docs/operations.md` has the reasons.

use std::time::Duration;

use super::{Finding, Map, Seen};

const MIB: u64 = 1024 * 1024;
/// So many connections that are left are not many, whatever the share.
const FEW: u64 = 8;

pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    let mut found = vec![server(seen), protocol(seen), role(seen), mode(seen)];
    found.extend(round_trips(&seen.trips));
    match &seen.info {
        Some(info) => {
            found.push(room(info, seen.config.as_ref()));
            found.extend([turned_away(info), forks(info)].into_iter().flatten());
        }
        None => found.push(Finding::unclear(
            "INFO",
            "this user may not ask for it",
            "a server that is full, or that stands still while it forks, costs locks",
            "allow +info, or look at INFO clients and INFO stats as another user",
        )),
    }
    match &seen.config {
        Some(config) => found.extend(settings(config)),
        None => found.push(Finding::unclear(
            "CONFIG",
            "this user may not read the settings",
            "some of them end members, or count them long after they are gone",
            "allow +config|get, or compare the settings with docs/operations.md as another user",
        )),
    }
    found
}

/// A field of `HELLO`, or one of `INFO` that says the same.
fn told<'a>(seen: &'a Seen, hello: &str, info: &str) -> Option<&'a str> {
    let of_info = || seen.info.as_ref().and_then(|all| all.get(info));
    seen.hello.get(hello).or_else(of_info).map(String::as_str)
}

fn number(map: &Map, key: &str) -> Option<u64> {
    map.get(key)?.parse().ok()
}

fn server(seen: &Seen) -> Finding {
    let info = |key: &str| seen.info.as_ref().and_then(|info| info.get(key)).map(String::as_str);
    let others = ["valkey", "redict", "dragonfly", "keydb", "garnet"];
    let other = others.iter().find_map(|name| Some((*name, info(&format!("{name}_version"))?)));
    let (name, version) = other.unwrap_or_else(|| {
        let name = told(seen, "server", "server_name").unwrap_or("unknown");
        (name, told(seen, "version", "redis_version").unwrap_or("unknown"))
    });
    let found = format!("{name} {version}");
    let major: u32 = version.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    if name == "valkey" && major >= 9 {
        let why = "PUBSUB NUMSUB is far too high with some numbers of members (8, 15, 16, 29): who waits \
                   behind a holder that is killed may find that out a second late";
        return Finding::warning("server", found, why, "use Valkey 8 or Redis");
    }
    // What `./dev cousins` runs the tests on; they number their versions from Redis 7.2 on.
    if ["valkey", "redict"].contains(&name) {
        return Finding::fine("server", found);
    }
    if name != "redis" {
        let why = "the promises rest on how Redis orders and counts; this server is not tested";
        return Finding::warning("server", found, why, "use Redis, or test this server well");
    }
    match major {
        0 => Finding::unclear("server", found, "some versions lack what locks need", "use Redis 7"),
        1..6 => Finding::danger("server", found, "it is older than RESP3", "use Redis 6 or newer"),
        _ => Finding::fine("server", found),
    }
}

fn protocol(seen: &Seen) -> Finding {
    match seen.hello.get("proto").map(String::as_str) {
        Some("3") => Finding::fine("protocol", "RESP3"),
        other => Finding::danger(
            "protocol",
            format!("RESP{}", other.unwrap_or(" of an unknown version")),
            "locks read replies and messages from one connection, which takes RESP3",
            "use Redis 6 or newer, and no proxy that speaks RESP2",
        ),
    }
}

fn role(seen: &Seen) -> Finding {
    match told(seen, "role", "role") {
        Some("master") => Finding::fine("role", "master"),
        Some(other) => Finding::danger(
            "role",
            other,
            "subscriptions are not replicated: those who lock on a replica and those who lock on its \
             master do not see each other",
            "let all use the URL of the master, and one node for locks",
        ),
        None => Finding::unclear(
            "role",
            "the server does not say",
            "a replica must not be used for locks",
            "allow +info, or look at INFO replication as another user",
        ),
    }
}

fn mode(seen: &Seen) -> Finding {
    match told(seen, "mode", "redis_mode") {
        Some("standalone") => Finding::fine("mode", "standalone"),
        Some("cluster") => Finding::danger(
            "mode",
            "cluster",
            "a cluster passes messages on between its nodes, and counts only those of each node",
            "use a server with cluster-enabled no",
        ),
        Some("sentinel") => Finding::danger(
            "mode",
            "sentinel",
            "this is a sentinel, and not the server that it watches",
            "use redis-sentinel://host:port/name, with the name that it knows the master by",
        ),
        other => Finding::unclear(
            "mode",
            other.unwrap_or("the server does not say"),
            "a cluster must not be used for locks",
            "see what cluster-enabled is",
        ),
    }
}

fn round_trips(trips: &[Duration]) -> Option<Finding> {
    let mut trips = trips.to_vec();
    trips.sort_unstable();
    let (least, median) = (*trips.first()?, trips[trips.len() / 2]);
    let found = format!("{least:.1?} at least, median {median:.1?}");
    Some(match median.as_millis() {
        ..=125 => Finding::fine("round trip", found),
        _ => Finding::warning(
            "round trip",
            found,
            "members that do not answer within unavailable_timeout (1 s) are ended, and that takes \
             several round trips",
            "lock nearer to the server, or set unavailable_timeout to ten round trips or more",
        ),
    })
}

fn room(info: &Map, config: Option<&Map>) -> Finding {
    let most = config.and_then(|config| number(config, "maxclients"));
    let most = most.or_else(|| number(info, "maxclients")).filter(|most| *most > 0);
    let (Some(used), Some(most)) = (number(info, "connected_clients"), most) else {
        let why = "a full server refuses those who would wait, or come back after a loss";
        return Finding::unclear("maxclients", "the server does not say", why, "look at it there");
    };
    let found = format!("{used} of {most} connections are in use");
    let why = "a full server refuses those who would wait, or come back after a loss";
    let mend = "raise maxclients, and ulimit -n with it; share connections (shared_connection)";
    match used * 100 / most {
        ..80 if most.saturating_sub(used) < FEW => Finding::warning("maxclients", found, why, mend),
        ..80 => Finding::fine("maxclients", found),
        80..95 => Finding::warning("maxclients", found, why, mend),
        _ => Finding::danger("maxclients", found, why, mend),
    }
}

fn turned_away(info: &Map) -> Option<Finding> {
    let of = |key| number(info, key).unwrap_or(0);
    let (rejected, evicted) = (of("rejected_connections"), of("evicted_clients"));
    let found =
        format!("{rejected} connections rejected, {evicted} evicted since the server began");
    (rejected + evicted > 0).then(|| {
        let why = "whoever holds on a connection that is evicted loses the lock";
        let mend =
            "see whether the numbers still grow; raise maxclients, set maxmemory-clients to 0";
        Finding::warning("turned away", found, why, mend)
    })
}

fn forks(info: &Map) -> Option<Finding> {
    let latest = Duration::from_micros(number(info, "latest_fork_usec")?);
    (latest > Duration::from_millis(250)).then(|| {
        let found = format!("the latest fork stopped the server for {latest:.1?}");
        let why = "health checks that fall into a standstill of 1 s cost their locks";
        let mend =
            "save less data here, switch transparent huge pages off, or lock on another server";
        Finding::warning("forks", found, why, mend)
    })
}

fn settings(config: &Map) -> Vec<Finding> {
    let all =
        [output_buffer(config), memory(config), keepalive(config), scripts(config), keys(config)];
    all.into_iter().flatten().collect()
}

/// `normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60`
fn pubsub_limits(value: &str) -> Option<[u64; 3]> {
    let mut words = value.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

fn output_buffer(config: &Map) -> Option<Finding> {
    const NAME: &str = "client-output-buffer-limit";
    let value = config.get(NAME)?;
    let why = "a member that does not read for a moment is ended, with its lock";
    let mend = "CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"";
    let Some([hard, soft, seconds]) = pubsub_limits(value) else {
        return Some(Finding::unclear(NAME, value, why, mend));
    };
    let found = format!("pubsub {hard} {soft} {seconds}");
    let below = |bound: u64| {
        let soft_bites = soft != 0 && soft < bound / 4 && seconds < 60;
        (hard != 0 && hard < bound) || soft_bites
    };
    Some(match (below(MIB), below(32 * MIB)) {
        (true, _) => Finding::danger(NAME, found, why, mend),
        (false, true) => Finding::warning(NAME, found, why, mend),
        (false, false) => Finding::fine(NAME, found),
    })
}

fn memory(config: &Map) -> Option<Finding> {
    const NAME: &str = "maxmemory-clients";
    let value = config.get(NAME)?;
    Some(match value.as_str() {
        "0" => Finding::fine(NAME, "0"),
        _ => Finding::warning(
            NAME,
            value,
            "the largest connections are ended, holders among them, without a look at what they do",
            "CONFIG SET maxmemory-clients 0",
        ),
    })
}

fn keepalive(config: &Map) -> Option<Finding> {
    const NAME: &str = "tcp-keepalive";
    let seconds = number(config, NAME)?;
    let why = "a host that vanishes stays a member for twice this while nobody waits";
    let mend = "CONFIG SET tcp-keepalive 60";
    Some(match seconds {
        0 => Finding::warning(NAME, "0: never", why, mend),
        1..=300 => Finding::fine(NAME, format!("{seconds} s")),
        _ => Finding::warning(NAME, format!("{seconds} s"), why, mend),
    })
}

fn scripts(config: &Map) -> Option<Finding> {
    let names = ["busy-reply-threshold", "lua-time-limit"];
    let (name, ms) = names.iter().find_map(|name| Some((*name, number(config, name)?)))?;
    let found = format!("{ms} ms");
    Some(match ms {
        1..1_000 => Finding::warning(
            name,
            found,
            "during a script that runs longer, whoever wants a lock is refused with BUSY",
            "CONFIG SET busy-reply-threshold 5000, and keep scripts short",
        ),
        _ => Finding::fine(name, found),
    })
}

fn keys(config: &Map) -> Option<Finding> {
    const NAME: &str = "maxmemory-policy";
    let (limit, policy) = (number(config, "maxmemory")?, config.get(NAME)?);
    Some(match policy.starts_with("allkeys-") && limit > 0 {
        true => Finding::warning(
            NAME,
            policy,
            "a fencing counter may be evicted, and then begins again at 1",
            "CONFIG SET maxmemory-policy noeviction, or volatile-lru",
        ),
        false => Finding::fine(NAME, policy),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::ask::info_fields;
    use super::*;

    /// What Redis 7.0.15 says, as far as it matters.
    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n\
        # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n\
        # Clients\r\nconnected_clients:1\r\ncluster_connections:0\r\nmaxclients:10000\r\n\r\n\
        # Stats\r\nrejected_connections:0\r\nevicted_clients:0\r\nlatest_fork_usec:254\r\n";
    const HELLO: [(&str, &str); 5] = [
        ("server", "redis"),
        ("version", "7.0.15"),
        ("proto", "3"),
        ("mode", "standalone"),
        ("role", "master"),
    ];
    const CONFIG: [(&str, &str); 8] = [
        (
            "client-output-buffer-limit",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("maxmemory-clients", "0"),
        ("tcp-keepalive", "300"),
        ("busy-reply-threshold", "5000"),
        ("lua-time-limit", "5000"),
        ("maxclients", "10000"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
    ];

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn seen() -> Seen {
        Seen {
            hello: map(&HELLO),
            info: Some(info_fields(INFO)),
            config: Some(map(&CONFIG)),
            trips: vec![Duration::from_micros(90); 15],
            rights: Vec::new(),
        }
    }

    /// All findings but the good ones.
    fn amiss(seen: &Seen) -> Vec<(String, Severity)> {
        let all = judge(seen).into_iter();
        let bad = all.filter(|finding| finding.severity != Severity::Fine);
        bad.map(|finding| {
            assert!(!finding.why.is_empty() && !finding.mend.is_empty(), "{finding:?}");
            (finding.subject, finding.severity)
        })
        .collect()
    }

    fn with(change: impl FnOnce(&mut Seen)) -> Vec<(String, Severity)> {
        let mut seen = seen();
        change(&mut seen);
        amiss(&seen)
    }

    fn with_setting(name: &str, value: &str) -> Vec<(String, Severity)> {
        with(|seen| drop(seen.config.as_mut().unwrap().insert(name.into(), value.into())))
    }

    fn with_info(name: &str, value: &str) -> Vec<(String, Severity)> {
        with(|seen| drop(seen.info.as_mut().unwrap().insert(name.into(), value.into())))
    }

    fn only(subject: &str, severity: Severity) -> Vec<(String, Severity)> {
        vec![(subject.to_owned(), severity)]
    }

    #[test]
    fn nothing_is_amiss_with_a_server_that_nobody_has_set() {
        assert_eq!(amiss(&seen()), []);
        assert!(judge(&seen()).len() >= 10);
    }

    #[test]
    fn a_server_of_another_kind_is_found_out() {
        use Severity::*;
        let hello = |key: &str, value: &str| {
            with(|seen| drop(seen.hello.insert(key.to_owned(), value.to_owned())))
        };
        assert_eq!(hello("role", "replica"), only("role", Danger));
        assert_eq!(hello("mode", "cluster"), only("mode", Danger));
        assert_eq!(hello("mode", "sentinel"), only("mode", Danger));
        assert_eq!(hello("proto", "2"), only("protocol", Danger));
        assert_eq!(hello("version", "5.0.14"), only("server", Danger));
        assert_eq!(hello("version", "6.2.14"), []);
        assert_eq!(hello("server", "valkey"), []);
        assert_eq!(with_info("valkey_version", "8.1.1"), []);
        assert_eq!(with_info("valkey_version", "9.1.2"), only("server", Warning));
        assert_eq!(hello("server", "garnet"), only("server", Warning));
        assert_eq!(with_info("dragonfly_version", "df-v1.20"), only("server", Warning));
        // What HELLO leaves out is found in INFO.
        assert_eq!(with(|seen| seen.hello.retain(|key, _| key == "proto" || key == "server")), []);
    }

    #[test]
    fn each_setting_that_endangers_locks_is_named() {
        use Severity::*;
        let buffer = "client-output-buffer-limit";
        for (value, severity) in [
            ("normal 0 0 0 slave 1 1 1 pubsub 65536 0 0", Danger),
            ("normal 0 0 0 replica 1 1 1 pubsub 8388608 2097152 60", Warning),
            ("normal 0 0 0 slave 1 1 1 pubsub 0 65536 1", Danger),
            ("normal 0 0 0", Unclear),
        ] {
            assert_eq!(with_setting(buffer, value), only(buffer, severity), "{value}");
        }
        for unlimited in ["pubsub 0 0 0", "pubsub 67108864 16777216 60"] {
            assert_eq!(with_setting(buffer, unlimited), [], "{unlimited}");
        }
        assert_eq!(with_setting("maxmemory-clients", "5%"), only("maxmemory-clients", Warning));
        for seconds in ["0", "7200"] {
            assert_eq!(with_setting("tcp-keepalive", seconds), only("tcp-keepalive", Warning));
        }
        let threshold = "busy-reply-threshold";
        assert_eq!(with_setting(threshold, "100"), only(threshold, Warning));
        assert_eq!(with_setting(threshold, "0"), []);
        assert_eq!(with_setting("maxmemory-policy", "allkeys-lru"), [], "there is no limit");
        let evicts = with(|seen| {
            let config = seen.config.as_mut().unwrap();
            config.extend(map(&[("maxmemory", "1000"), ("maxmemory-policy", "allkeys-lfu")]));
        });
        assert_eq!(evicts, only("maxmemory-policy", Warning));
    }

    #[test]
    fn a_server_without_room_is_found_out() {
        use Severity::*;
        assert_eq!(with_info("connected_clients", "7999"), []);
        assert_eq!(with_info("connected_clients", "8000"), only("maxclients", Warning));
        assert_eq!(with_info("connected_clients", "9500"), only("maxclients", Danger));
        assert_eq!(with_info("rejected_connections", "3"), only("turned away", Warning));
        assert_eq!(with_info("evicted_clients", "1"), only("turned away", Warning));
        assert_eq!(with_info("latest_fork_usec", "900000"), only("forks", Warning));
    }

    #[test]
    fn a_long_way_is_told_by_its_median() {
        let slow = Duration::from_millis(200);
        assert_eq!(with(|seen| seen.trips[..7].fill(slow)), []);
        assert_eq!(with(|seen| seen.trips.fill(slow)), only("round trip", Severity::Warning));
    }

    #[test]
    fn what_is_refused_is_not_taken_for_good() {
        use Severity::*;
        assert_eq!(with(|seen| seen.config = None), only("CONFIG", Unclear));
        assert_eq!(with(|seen| seen.info = None), only("INFO", Unclear));
        let nothing =
            with(|seen| *seen = Seen { hello: map(&[("proto", "3")]), ..Seen::default() });
        let subjects: Vec<_> = nothing.iter().map(|(subject, _)| subject.as_str()).collect();
        assert_eq!(subjects, ["server", "role", "mode", "INFO", "CONFIG"]);
        assert!(nothing.iter().all(|(subject, severity)| {
            *severity == if subject == "server" { Warning } else { Unclear }
        }));
    }
}
