//! Two hosts, and a network between them that drops everything without a word.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, lone_lock, ms, wait};

/// A host of its own, as far as the network goes, joined to this one by a cable.
struct Host {
    name: String,
    cable: String,
    address: String,
    own_address: String,
}

fn run(words: &str) -> Result<(), String> {
    let mut words = words.split(' ');
    let program = words.next().unwrap();
    match Command::new(program).args(words.clone()).output() {
        Err(error) => Err(format!("{program}: {error}")),
        Ok(outcome) if outcome.status.success() => Ok(()),
        Ok(outcome) => Err(format!("{program}: {}", String::from_utf8_lossy(&outcome.stderr))),
    }
}

impl Host {
    /// `Err` where that is not allowed, as it is to root alone.
    fn new() -> Result<Self, String> {
        let number = std::process::id() % 16_000;
        let (high, low) = (number / 64, number % 64 * 4);
        let host = Self {
            name: format!("portalock-{}", std::process::id()),
            cable: format!("pl{}", std::process::id()),
            // Of the block for tests of networks (RFC 2544).
            address: format!("198.18.{high}.{}", low + 1),
            own_address: format!("198.18.{high}.{}", low + 2),
        };
        let Self { name, cable, address, own_address } = &host;
        for words in [
            format!("ip netns add {name}"),
            format!("ip link add {cable} type veth peer name {cable}p netns {name}"),
            format!("ip addr add {address}/30 dev {cable}"),
            format!("ip link set {cable} up"),
            format!("ip -n {name} addr add {own_address}/30 dev {cable}p"),
            format!("ip -n {name} link set {cable}p up"),
            format!("ip netns exec {name} nft add table inet portalock"),
        ] {
            run(&words)?;
        }
        Ok(host)
    }

    /// From here on every packet is dropped, in both directions.
    fn cut(&self) {
        run(&format!("ip netns exec {} nft add table inet portalock", self.name)).unwrap();
        for (chain, hook) in [("i", "input"), ("o", "output")] {
            let rule = "{ type filter hook HOOK priority 0; policy drop; }".replace("HOOK", hook);
            let words = ["netns", "exec", &self.name, "nft", "add", "chain", "inet"];
            let mut command = Command::new("ip");
            let status = command.args(words).args(["portalock", chain, &rule]).status().unwrap();
            assert!(status.success());
        }
    }

    fn mend(&self) {
        run(&format!("ip netns exec {} nft flush ruleset", self.name)).unwrap();
    }

    fn worker(&self, url: &str, options: &[&str]) -> Worker {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"]);
        command.env("PORTALOCK_WORKER", Worker::job(url, "jobs", options));
        Worker::spawn_program(&mut command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = run(&format!("ip netns del {}", self.name));
        let _ = run(&format!("ip link del {}", self.cable));
    }
}

#[test]
fn a_network_that_drops_everything_is_reported_within_interval_and_deadline() {
    let host = match Host::new() {
        Ok(host) => host,
        Err(why) => return println!("SKIPPED, for there can be no second host here: {why}"),
    };
    let server = Server::with(&[("bind", &host.address), ("protected-mode", "no")]);
    let url = format!("redis://{}:{}", host.address, server.port());
    for interval in [200, 500, 2_000] {
        let options = format!("health_ms={interval}");
        let mut holder = host.worker(&url, &[&options]);
        holder.expect("x 5000", "got x");
        std::thread::sleep(ms(interval + 200));
        assert_eq!(server.members("jobs"), 1);
        host.cut();
        let begun = Instant::now();
        holder.await_line("lost", LONG);
        let (took, deadline) = (begun.elapsed(), interval.min(1_000));
        println!("told after {took:?} with checks every {interval} ms");
        assert!(took < ms(interval + deadline + 700), "{took:?} at {interval} ms");
        holder.expect("r", "Lost");
        // The waiter on this side of the cut finds the holder silent.
        let next = lone_lock(&server.url(), "jobs");
        next.acquire(wait(10_000)).unwrap();
        next.release().unwrap();
        host.mend();
        holder.expect("x 20000", "got x");
        holder.expect("r", "released");
        drop(holder);
        assert!(wait_until(Duration::from_secs(30), || server.members("jobs") == 0));
    }
}
