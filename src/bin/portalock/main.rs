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

use std::io::Write;

use clap::Parser;
use clap::error::{ContextValue, ErrorKind};

use arguments::{Arguments, Command};
use failure::Outcome;

fn main() {
    logging::start();
    if let Some(columns) = output::columns() {
        pages::fit(columns);
    }
    let code = match Arguments::try_parse() {
        Ok(arguments) => perform(&arguments),
        Err(error) if error.use_stderr() => Ok(refuse(error)),
        Err(help) => show(&help),
    };
    let code = code.unwrap_or_else(|failure| {
        output::say(&failure.to_string());
        failure.code
    });
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

/// Shows help where it was asked for.
fn show(help: &clap::Error) -> Outcome {
    output::is_read(help.print().and_then(|()| std::io::stdout().flush()))?;
    Ok(exit::OK)
}

/// Says what is wrong with the command line.
fn refuse(error: clap::Error) -> u8 {
    let text = match error.kind() {
        // Ours alone, with none of the person's words.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.render().to_string(),
        _ => format!("portalock: {}", without_secrets(error).render()),
    };
    // Nobody may be there to read it.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    exit::USAGE
}

/// An error whose text shows none of the words that may be a URL.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    let kept: Vec<_> = error.context().map(|(kind, value)| (kind, value.clone())).collect();
    for (kind, value) in kept {
        let value = match value {
            ContextValue::String(word) => ContextValue::String(secret::conceal_value(&word)),
            ContextValue::Strings(words) => ContextValue::Strings(
                words.iter().map(|word| secret::conceal_value(word)).collect(),
            ),
            // A hint shows the word again.
            ContextValue::StyledStrs(hints) => ContextValue::StyledStrs(
                hints.into_iter().filter(|hint| is_harmless(&hint.to_string())).collect(),
            ),
            other => other,
        };
        error.insert(kind, value);
    }
    error
}

fn is_harmless(text: &str) -> bool {
    !text.contains("://") && !text.contains('@')
}
