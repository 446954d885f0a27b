//! Two network namespaces with a cable between them, which can be cut without either end's knowing.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "portalock-test";
/// The namespaces are islands: every pair has the same addresses.
const NEAR: &str = "10.213.7.1";
const FAR: &str = "10.213.7.2";

/// The near end is the server's, the far end the worker's. Both are gone when this is dropped.
pub struct Cable {
    near: String,
    far: String,
    /// By the packet filter, or else by taking down the near end, which the far end does not see either.
    by_filter: bool,
}

impl Cable {
    /// Why not, where namespaces cannot be made: it takes root, and `ip`.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_left_behind();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("{PREFIX}-{}-{number}-{end}", std::process::id());
        // From here on, dropping it cleans up.
        let mut cable = Self { near: name("near"), far: name("far"), by_filter: false };
        run(&["ip", "netns", "add", &cable.near])?;
        run(&["ip", "netns", "add", &cable.far])?;
        let link = "link add eth0 type veth peer name eth0 netns";
        run(&words(&["ip", "-n", &cable.near], &format!("{link} {}", cable.far)))?;
        for (end, address) in [(&cable.near, NEAR), (&cable.far, FAR)] {
            let ip = ["ip", "-n", end];
            run(&words(&ip, &format!("address add {address}/24 dev eth0")))?;
            run(&words(&ip, "link set lo up"))?;
            run(&words(&ip, "link set eth0 up"))?;
        }
        cable.by_filter = cable.filter("add table inet cut").is_ok();
        Ok(cable)
    }

    pub fn server_address() -> &'static str {
        NEAR
    }

    /// What a command begins with that is to run at the server's end.
    pub fn at_near(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.near]
    }

    /// At the worker's end.
    pub fn at_far(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.far]
    }

    /// From now on, packets are lost both ways.
    pub fn cut(&self) {
        let done = match self.by_filter {
            true => self.filter(
                "add chain inet cut in { type filter hook input priority 0; policy drop; }; \
                 add chain inet cut post { type filter hook postrouting priority 0; policy drop; }",
            ),
            false => run(&words(&["ip", "-n", &self.near], "link set eth0 down")),
        };
        done.expect("the cable cannot be cut");
    }

    pub fn mend(&self) {
        let done = match self.by_filter {
            true => self.filter("flush table inet cut; delete table inet cut; add table inet cut"),
            false => run(&words(&["ip", "-n", &self.near], "link set eth0 up")),
        };
        done.expect("the cable cannot be mended");
    }

    fn filter(&self, rules: &str) -> Result<(), String> {
        let mut command = self.at_near().to_vec();
        command.extend(["nft", rules]);
        run(&command)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            let _ = run(&["ip", "netns", "delete", end]);
        }
    }
}

fn words<'a>(first: &[&'a str], rest: &'a str) -> Vec<&'a str> {
    first.iter().copied().chain(rest.split(' ')).collect()
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{words:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", words.join(" "), said.trim()))
        }
    }
}

/// Those of processes that were killed before they could clean up.
fn remove_left_behind() {
    let Ok(output) = Command::new("ip").args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        if pid.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists()) {
            let _ = run(&["ip", "netns", "delete", name]);
        }
    }
}
