//! A cluster of three masters with a replica each, all on loopback. They die with the value, and with the
//! thread that starts them.

use std::sync::OnceLock;
use std::time::Duration;

use super::{Server, free_port, wait_until};

/// How long a node may be silent before the others take it for dead.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Longer than any change takes.
const LONG: Duration = Duration::from_secs(40);
/// The first slot of each of the masters, and the end.
const SLOTS: [u16; 4] = [0, 5_461, 10_923, 16_384];

/// All of them.
pub struct Cluster {
    /// The masters at first, then the replica of each.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Three masters and three replicas, when all of them see the cluster stand.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// As [`start`](Self::start), with further settings of the nodes.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let cluster = Self { nodes: (0..6).map(|_| node(settings)).collect() };
        for (at, node) in cluster.nodes.iter().enumerate() {
            let epoch = (at + 1).to_string();
            node.run::<String>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if at < 3 {
                let (first, last) = (SLOTS[at].to_string(), (SLOTS[at + 1] - 1).to_string());
                node.run::<String>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
        for node in &cluster.nodes[1..] {
            let (port, bus) = (node.port().to_string(), bus_of(node));
            cluster.nodes[0].run::<String>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let knows = |node: &Server| field(node, "cluster_known_nodes").as_deref() == Some("6");
        let met = || cluster.nodes.iter().all(knows);
        assert!(wait_until(LONG, met), "the nodes do not meet");
        for at in 0..3 {
            let id = cluster.id(at);
            cluster.nodes[at + 3].run::<String>(&["CLUSTER", "REPLICATE", &id]);
        }
        cluster.await_health();
        cluster
    }

    /// One that all tests of this process share, which are not to change it.
    pub fn common() -> &'static Self {
        static COMMON: OnceLock<&'static Cluster> = OnceLock::new();
        COMMON.get_or_init(|| {
            let (sender, receiver) = std::sync::mpsc::channel();
            // The nodes live as long as the thread that starts them, and a test's own ends with the test.
            std::thread::spawn(move || {
                let _ = sender.send(&*Box::leak(Box::new(Self::start())));
                loop {
                    std::thread::park();
                }
            });
            receiver.recv().expect("no cluster")
        })
    }

    /// Waits until every node sees all slots served, and all replicas follow.
    pub fn await_health(&self) {
        let healthy = || {
            self.nodes.iter().all(|node| {
                let replication: String = node.run(&["INFO", "replication"]);
                let follows = replication.contains("role:master")
                    || replication.contains("master_link_status:up");
                let masters = field(node, "cluster_size").as_deref() == Some("3");
                follows && masters && self.sees_all(node) && is_up(node)
            })
        };
        assert!(wait_until(LONG, healthy), "the cluster does not come up");
    }

    /// Whether it says of three nodes that they are replicas, and of none that it fails.
    fn sees_all(&self, node: &Server) -> bool {
        let nodes: String = node.run(&["CLUSTER", "NODES"]);
        let replicas = nodes.lines().filter(|line| line.contains("slave ")).count();
        replicas == 3 && !nodes.contains("fail") && !nodes.contains("handshake")
    }

    /// What a node goes by.
    pub fn id(&self, at: usize) -> String {
        self.nodes[at].run(&["CLUSTER", "MYID"])
    }

    /// The URL with all nodes.
    pub fn url(&self) -> String {
        self.url_of(&[0, 1, 2, 3, 4, 5])
    }

    /// The URL with these nodes.
    pub fn url_of(&self, which: &[usize]) -> String {
        let at = |which: &usize| format!("127.0.0.1:{}", self.nodes[*which].port());
        let places: Vec<_> = which.iter().map(at).collect();
        format!("redis-cluster://{}", places.join(","))
    }

    /// Which of the masters at first has the slot of a name.
    pub fn home_of(&self, name: &str) -> usize {
        let slot = slot_of(&self.nodes[0], name);
        (0..3).find(|at| slot < SLOTS[at + 1]).unwrap()
    }

    /// A name that is at this master at first.
    pub fn name_at(&self, home: usize, stem: &str) -> String {
        let mut names = (0..).map(|number| format!("{stem}{number}"));
        names.find(|name| self.home_of(name) == home).unwrap()
    }

    /// How many are on a lock's channel at one node.
    pub fn members(&self, at: usize, name: &str) -> u64 {
        self.nodes[at].run::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", name]).1
    }

    /// Moves a slot and what is in it from one master to another, as the tools that do that.
    pub fn move_slot(&self, name: &str, from: usize, to: usize) {
        self.begin_move(name, from, to);
        self.end_move(name, from, to);
    }

    /// The first half: its keys are moved.
    pub fn begin_move(&self, name: &str, from: usize, to: usize) {
        let slot = slot_of(&self.nodes[from], name).to_string();
        let set = |at: usize, how: &str, node: &str| {
            self.nodes[at].run::<String>(&["CLUSTER", "SETSLOT", &slot, how, node]);
        };
        set(to, "IMPORTING", &self.id(from));
        set(from, "MIGRATING", &self.id(to));
        let keys: Vec<String> = self.nodes[from].run(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
        let port = self.nodes[to].port().to_string();
        for key in keys {
            self.nodes[from].run::<String>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        }
    }

    /// The second half: it is said whose slot it is.
    pub fn end_move(&self, name: &str, from: usize, to: usize) {
        let slot = slot_of(&self.nodes[from], name).to_string();
        let owner = self.id(to);
        for at in [to, from] {
            self.nodes[at].run::<String>(&["CLUSTER", "SETSLOT", &slot, "NODE", &owner]);
        }
    }

    /// Waits until a node has been made a master, as the others of these know.
    pub fn await_master(&self, at: usize, by: &[usize]) {
        let id = self.id(at);
        let is_master = |line: &str| line.starts_with(&id) && line.contains("master");
        let agreed = || {
            by.iter().all(|by| {
                let nodes: String = self.nodes[*by].run(&["CLUSTER", "NODES"]);
                nodes.lines().any(is_master) && is_up(&self.nodes[*by])
            })
        };
        assert!(wait_until(LONG, agreed), "there was no failover");
    }
}

fn node(settings: &[(&str, &str)]) -> Server {
    let bus = free_port().to_string();
    let timeout = NODE_TIMEOUT.as_millis().to_string();
    let own = [
        ("cluster-enabled", "yes"),
        ("cluster-port", bus.as_str()),
        ("cluster-node-timeout", timeout.as_str()),
        ("cluster-replica-validity-factor", "0"),
        ("repl-diskless-sync-delay", "0"),
        ("repl-ping-replica-period", "1"),
    ];
    Server::with(&[&own, settings].concat())
}

fn bus_of(node: &Server) -> String {
    node.run::<(String, String)>(&["CONFIG", "GET", "cluster-port"]).1
}

/// The slot of a name, as a node counts it.
pub fn slot_of(node: &Server, name: &str) -> u16 {
    node.run(&["CLUSTER", "KEYSLOT", name])
}

/// Whether a node sees the cluster stand.
pub fn is_up(node: &Server) -> bool {
    field(node, "cluster_state").as_deref() == Some("ok")
}

fn field(node: &Server, name: &str) -> Option<String> {
    let info: String = node.run(&["CLUSTER", "INFO"]);
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value)
}
