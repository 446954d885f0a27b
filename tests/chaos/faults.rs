//! What is done to processes, connections, paths and the server.

use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::judge::Judge;
use crate::proxy::Proxy;
use crate::support::{Server, signal, wait_until};
use crate::worker::{NAME, spawn};

pub const CROWD: usize = 12;
/// Every third goes straight over TCP, every third over the unix socket, the others through proxies.
const PROXIES: usize = 2;

pub struct Chaos {
    judge: Arc<Judge>,
    dice: Dice,
    server: Server,
    proxies: Vec<Proxy>,
    workers: Vec<Child>,
    /// What is to be taken back, and when.
    mends: Vec<(Instant, Mend)>,
}

#[derive(Clone, Copy, Debug)]
enum Mend {
    Continue(usize),
    Speak(usize),
    ContinueServer,
}

impl Chaos {
    pub fn start(judge: &Arc<Judge>) -> Self {
        // The fencing counter has to outlive the server: so much of a resource it is.
        let server = Server::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
        judge.listen(&server.dir().join("judge.sock"));
        let proxies = (0..PROXIES).map(|_| Proxy::before(server.port())).collect();
        let dice = Dice::new();
        let mut chaos = Self {
            judge: judge.clone(),
            dice,
            server,
            proxies,
            workers: Vec::new(),
            mends: Vec::new(),
        };
        for number in 0..CROWD {
            let worker = chaos.spawn(number);
            chaos.workers.push(worker);
        }
        chaos
    }

    fn path_of(number: usize) -> Option<usize> {
        (number % 3 == 2).then_some(number / 3 % PROXIES)
    }

    fn spawn(&mut self, number: usize) -> Child {
        let url = match (number % 3, Self::path_of(number)) {
            (_, Some(proxy)) => self.proxies[proxy].url.clone(),
            (0, None) => self.server.url(),
            _ => self.server.tcp_url(),
        };
        let seed = self.dice.below(1 << 31) as u64;
        spawn(number, &url, &self.server.dir().join("judge.sock"), seed)
    }

    /// Lets some time pass, mends what is due, and does one more thing.
    pub fn injure(&mut self) {
        std::thread::sleep(Duration::from_millis(40 + self.dice.below(300) as u64));
        self.mend(Instant::now());
        match self.dice.below(200) {
            0..35 => self.kill_process(),
            35..85 => self.stop_process(),
            85..140 => self.kill_connection(),
            140..165 => self.cut_path(),
            165..188 => self.silence_path(),
            188..196 => self.stop_server(),
            _ => self.restart_server(),
        }
    }

    fn later(&mut self, most_ms: usize, mend: Mend) {
        let span = Duration::from_millis(100 + self.dice.below(most_ms) as u64);
        self.mends.push((Instant::now() + span, mend));
    }

    fn mend(&mut self, now: Instant) {
        let (due, rest) = self.mends.drain(..).partition(|(at, _)| *at <= now);
        self.mends = rest;
        let due: Vec<(Instant, Mend)> = due;
        for (_, mend) in due {
            match mend {
                Mend::Continue(number) => {
                    self.judge.set_stopped(number, false);
                    signal(self.workers[number].id() as i32, libc::SIGCONT);
                }
                Mend::Speak(proxy) => {
                    self.hurt_path(proxy, "path silent");
                    self.proxies[proxy].set_silent(false);
                }
                Mend::ContinueServer => {
                    self.hurt_all("server stopped");
                    self.server.cont();
                }
            }
        }
    }

    fn hurt_all(&self, how: &'static str) {
        (0..CROWD).for_each(|number| self.judge.hurt(number, how));
    }

    fn hurt_path(&self, proxy: usize, how: &'static str) {
        let on_it = (0..CROWD).filter(|number| Self::path_of(*number) == Some(proxy));
        on_it.for_each(|number| self.judge.hurt(number, how));
    }

    fn any_worker(&mut self) -> usize {
        self.dice.below(CROWD)
    }

    fn kill_process(&mut self) {
        let number = self.any_worker();
        self.judge.count("process killed");
        let _ = self.workers[number].kill();
        let _ = self.workers[number].wait();
        self.judge.died(number);
        self.mends.retain(|(_, mend)| !matches!(mend, Mend::Continue(n) if *n == number));
        self.workers[number] = self.spawn(number);
    }

    fn stop_process(&mut self) {
        let number = self.any_worker();
        if self.mends.iter().any(|(_, mend)| matches!(mend, Mend::Continue(n) if *n == number)) {
            return;
        }
        self.judge.count("process stopped");
        self.judge.set_stopped(number, true);
        signal(self.workers[number].id() as i32, libc::SIGSTOP);
        self.later(4_000, Mend::Continue(number));
    }

    fn kill_connection(&mut self) {
        if self.is_server_stopped() {
            return;
        }
        let clients = self.server.clients();
        let name_of = |line: &String| {
            let mut names = line.split(' ').filter_map(|field| field.strip_prefix("name="));
            names.find(|name| name.starts_with(&format!("{NAME}-lock-"))).map(str::to_owned)
        };
        let names: Vec<_> = clients.iter().filter_map(name_of).collect();
        if names.is_empty() {
            return;
        }
        let name = &names[self.dice.below(names.len())];
        self.judge.count("connection killed");
        self.judge.killed(name);
        self.server.kill_client(name);
    }

    fn cut_path(&mut self) {
        let proxy = self.dice.below(PROXIES);
        self.judge.count("path cut");
        self.hurt_path(proxy, "path cut");
        self.proxies[proxy].cut();
    }

    fn silence_path(&mut self) {
        let proxy = self.dice.below(PROXIES);
        if self.mends.iter().any(|(_, mend)| matches!(mend, Mend::Speak(n) if *n == proxy)) {
            return;
        }
        self.judge.count("path silent");
        self.hurt_path(proxy, "path silent");
        self.proxies[proxy].set_silent(true);
        self.later(4_000, Mend::Speak(proxy));
    }

    fn is_server_stopped(&self) -> bool {
        self.mends.iter().any(|(_, mend)| matches!(mend, Mend::ContinueServer))
    }

    fn stop_server(&mut self) {
        if self.is_server_stopped() {
            return;
        }
        self.judge.count("server stopped");
        self.hurt_all("server stopped");
        self.server.stop();
        self.later(1_500, Mend::ContinueServer);
    }

    fn restart_server(&mut self) {
        self.judge.count("server restarted");
        self.mends.retain(|(_, mend)| !matches!(mend, Mend::ContinueServer));
        self.hurt_all("server restarted");
        self.server.kill();
        std::thread::sleep(Duration::from_millis(self.dice.below(300) as u64));
        self.hurt_all("server restarted");
        self.server.restart();
    }

    /// Takes back what was done.
    pub fn calm_down(&mut self) -> String {
        let far = Instant::now() + Duration::from_secs(3600);
        let mends = self.mends.len();
        self.mend(far);
        format!("{mends} faults mended at once")
    }

    /// Everybody leaves, and nothing of them is left.
    pub fn end(mut self) {
        self.judge.end();
        for worker in &mut self.workers {
            let mut status = None;
            wait_until(Duration::from_secs(40), || {
                status = worker.try_wait().unwrap();
                status.is_some()
            });
            let status = status.expect("somebody does not leave");
            assert!(status.success(), "somebody fails: {status}");
        }
        let left = || self.server.clients().iter().filter(|line| line.contains("-lock-")).count();
        assert!(wait_until(Duration::from_secs(5), || left() == 0), "{:?}", self.server.clients());
        assert_eq!(self.server.members(NAME), 0);
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}
