//! Measures portalock and its peers at the same work, and prints one table. `./dev bench` runs it.
mod figures;
mod own;
mod process;
mod report;
mod work;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "work") {
        return work::run(&words[1..]);
    }
    let parts: Vec<&str> = words.iter().map(String::as_str).collect();
    match parts[..] {
        ["own", "hold", url, count, shared] => {
            return own::hold(url, count.parse().unwrap(), shared.parse().unwrap());
        }
        ["own", "in-process", url, folder, seconds] => {
            return own::in_process(url, folder, seconds.parse().unwrap());
        }
        _ => {}
    }
    let known = ["--quick", "--save"];
    if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
        eprintln!("{word}: only --quick and --save are known");
        std::process::exit(64);
    }
    let quick = words.iter().any(|word| word == "--quick");
    let server = process::Server::start();
    let rows = figures::all(&server, quick);
    let page = report::page(&rows, &server.version(), quick);
    print!("{page}");
    if words.iter().any(|word| word == "--save") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md");
        std::fs::write(path, page).expect("docs/performance.md cannot be written");
    }
}
