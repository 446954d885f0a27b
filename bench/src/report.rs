//! The table.
use std::process::Command;

/// One line of it. Times are nanoseconds.
pub struct Row {
    pub figure: String,
    pub who: String,
    pub median: String,
    pub p99: String,
    /// Against the PING round trip, or against ours, as the figure says.
    pub ratio: String,
    pub target: String,
    pub met: Option<bool>,
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or("?".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or("?".into(), |name| name.trim_start_matches([' ', '\t', ':']).to_owned())
}

pub fn page(rows: &[Row], server: &str, quick: bool) -> String {
    let mut text = String::from("# Performance\n\n");
    text += &format!(
        "Written by `./dev bench --save`, which repeats it{}. {}.\n\n",
        if quick {
            "; this run was a `--quick` one, too short for its figures to mean much"
        } else {
            ""
        },
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
    );
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    text += &format!("- Machine: {}, {cores} cores, {}\n", processor(), said("uname", &["-sr"]));
    text += &format!(
        "- Versions: portalock 0.1.0 at {}, redis-server {server}, {}, {}, node {}\n",
        said("git", &["rev-parse", "--short", "HEAD"]),
        said("rustc", &["--version"]),
        said(&std::env::var("PORTALOCK_BENCH_PYTHON").unwrap_or_default(), &["--version"]),
        said("node", &["--version"]),
    );
    text += "- Peers: portalocker 4.4.2, redis 8.1.0 and python-redis-lock 4.0.1 (Python), redlock 4.2.0 \
             (npm), rslock 0.10 (Rust),\n  minimal: `SET NX PX` and `EVALSHA` on one connection (Rust), \
             which asks again after 1 ms\n";
    text += "- One redis-server for all, over loopback TCP; RTT is the median of PING on a plain blocking \
             socket,\n  one before each of our pairs; those of the others in Rust have \
             one\n  before them too. Rounds of pairs, of cold acquires and of the languages take turns; the rest \
             is measured\n  one lock after the other. The peers' leases are 10 s.\n\n";
    text += "On the wire a pair is: ours, a pipeline of CLIENT SETNAME, SUBSCRIBE and PUBSUB NUMSUB, which is \
             waited for, then\none of UNSUBSCRIBE, PUBLISH and CLIENT SETNAME, which is not; what the \
             others send is counted below,\nwith what their scripts call.\n\n";
    text +=
        "| figure | who | median | p99 | ratio | target | |\n|---|---|---:|---:|---:|---|---|\n";
    for row in rows {
        let met = row.met.map_or("", |met| if met { "met" } else { "**missed**" });
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {met} |\n",
            row.figure, row.who, row.median, row.p99, row.ratio, row.target
        );
    }
    text
}
