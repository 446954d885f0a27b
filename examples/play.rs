// scratch: portalock shell: play URL NAME
use portalock::*;
use std::io::BufRead;
use std::time::*;
struct L;
impl log::Log for L {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }
    fn log(&self, r: &log::Record) {
        eprintln!("LOG {}", r.args())
    }
    fn flush(&self) {}
}
fn main() {
    log::set_logger(&L).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let a: Vec<String> = std::env::args().collect();
    let c = Client::new(&a[1], ClientOptions::new()).unwrap();
    let l = c.lock(&a[2], LockOptions::new()).unwrap();
    l.on_lost(Some(Box::new(|x| println!("LOST {x:?}"))));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let w: Vec<&str> = line.split_whitespace().collect();
        let t = Instant::now();
        let wait = |i: usize| {
            w.get(i).map_or(Wait::Default, |s| Wait::For(Duration::from_millis(s.parse().unwrap())))
        };
        let r = match w[0] {
            "x" => format!("{:?}", l.acquire_mode(Mode::Exclusive, wait(1))),
            "s" => format!("{:?}", l.acquire_mode(Mode::Shared, wait(1))),
            "r" => format!("{:?}", l.release()),
            "h" => format!("{:#?}", c.holders(&a[2], Duration::from_secs(1))),
            "reap" => format!("{:?}", c.reap_silent(&a[2], Duration::from_secs(1))),
            "z" => {
                std::thread::sleep(Duration::from_millis(w[1].parse().unwrap()));
                "slept".into()
            }
            _ => "?".into(),
        };
        println!("{} -> {} [{:?}]", line, r, t.elapsed());
    }
}
