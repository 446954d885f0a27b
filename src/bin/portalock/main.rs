//! `portalock`: runs commands under a lock, and shows who holds it.

mod arguments;
mod doctor;
mod exit;
mod failure;
mod holders;
mod logging;
mod member;
mod news;
mod output;
mod pages;
mod reap;
mod run;
mod secret;
mod server;
mod table;
mod voice;
mod wait;

use clap::Parser;

use arguments::{Arguments, Command};
use failure::Outcome;

fn main() {
    logging::start();
    let code = match Arguments::try_parse() {
        Ok(arguments) => perform(&arguments).unwrap_or_else(|failure| {
            output::say(&failure.to_string());
            failure.code
        }),
        Err(error) => refuse(&error),
    };
    voice::finish();
    std::process::exit(code.into());
}

fn perform(arguments: &Arguments) -> Outcome {
    let client = server::client(arguments)?;
    match &arguments.command {
        Command::Run(run) => run::run(&client, run),
        Command::Holders(holders) => holders::holders(&client, holders),
        Command::Wait(wait) => wait::wait(&client, wait),
        Command::Reap(reap) => reap::reap(&client, reap),
        Command::Doctor(doctor) => doctor::doctor(&client, doctor),
    }
}

/// Shows help where it was asked for, and what is wrong with the command line otherwise.
fn refuse(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return exit::OK;
    }
    eprint!("portalock: {}", secret::conceal(&error.render().to_string()));
    exit::USAGE
}
