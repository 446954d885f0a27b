//! A process and all that it has started, as /proc shows them.

use std::collections::{BTreeSet, HashMap};

use rustix::process::{Pid, Signal, getpgid, kill_process};

/// A process; by its start it is told from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    start: u64,
}

/// Those who were found so far. Who has lost its parent meanwhile is still known.
#[derive(Debug, Default)]
pub struct Tree {
    found: BTreeSet<Process>,
}

impl Tree {
    /// Looks for a process and all below it, and below those found before who are still there.
    pub fn look(&mut self, root: Option<Pid>) {
        let present = Snapshot::take();
        self.found.retain(|process| present.holds(*process));
        let mut roots: Vec<_> = self.found.iter().map(|process| process.pid).collect();
        roots.extend(root.map(|root| root.as_raw_nonzero().get()));
        while let Some(pid) = roots.pop() {
            self.found.extend(present.process(pid));
            let below = present.children.get(&pid).into_iter().flatten();
            roots.extend(below.filter(|child| self.found.insert(**child)).map(|child| child.pid));
        }
    }

    /// Sends a signal to those found, but for those who are said to have it already, by their number and
    /// their group.
    pub fn signal(&self, signal: Signal, has_it: impl Fn(Pid, Pid) -> bool) {
        let pids = self.found.iter().filter_map(|process| Pid::from_raw(process.pid));
        for pid in pids {
            if getpgid(Some(pid)).is_ok_and(|group| !has_it(pid, group)) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Whether one of those found before is still there.
    pub fn has_remains(&self) -> bool {
        let present = Snapshot::take();
        self.found.iter().any(|process| present.holds(*process))
    }
}

/// All processes at one moment.
struct Snapshot {
    starts: HashMap<i32, u64>,
    children: HashMap<i32, Vec<Process>>,
}

impl Snapshot {
    fn take() -> Self {
        let mut snapshot = Self { starts: HashMap::new(), children: HashMap::new() };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if let Some((parent, start)) = read_stat(&stat) {
                snapshot.starts.insert(pid, start);
                snapshot.children.entry(parent).or_default().push(Process { pid, start });
            }
        }
        snapshot
    }

    fn process(&self, pid: i32) -> Option<Process> {
        self.starts.get(&pid).map(|start| Process { pid, start: *start })
    }

    fn holds(&self, process: Process) -> bool {
        self.starts.get(&process.pid) == Some(&process.start)
    }
}

/// The parent and the start; `None` for one that has ended and is only not yet asked for its status.
fn read_stat(stat: &str) -> Option<(i32, u64)> {
    // Its name may hold anything, also brackets and spaces.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let is_over = matches!(*fields.first()?, "Z" | "X");
    let parent = fields.get(1)?.parse().ok()?;
    let start = fields.get(19)?.parse().ok()?;
    (!is_over).then_some((parent, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name() {
        let rest = "4 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0";
        assert_eq!(read_stat(&format!("12 (a) S (b) S {rest}")), Some((4, 777)));
        assert_eq!(read_stat(&format!("12 (a) Z {rest}")), None);
        assert_eq!(read_stat(""), None);
    }

    #[test]
    fn children_of_children_are_found() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .expect("sh is there");
        let mut tree = Tree::default();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while tree.found.len() < 2 && std::time::Instant::now() < until {
            tree.look(Some(Pid::from_child(&child)));
        }
        assert_eq!(tree.found.len(), 2);
        assert!(tree.has_remains());
        tree.signal(Signal::KILL, |_, _| false);
        let _ = child.wait();
        while tree.has_remains() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!tree.has_remains());
    }
}
