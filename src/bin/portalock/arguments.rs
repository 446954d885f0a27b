//! The command line. Also read by the build script, which makes completions and manual pages of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::pages;

/// Distributed locks held by a live Redis subscription
///
/// Runs commands under locks that are free at once when their holder's process is gone, and shows who
/// holds them.
#[derive(Debug, Parser)]
#[command(name = "portalock", version, args_override_self = true, max_term_width = 100)]
#[command(after_long_help = pages::ALL.text(), disable_help_subcommand = true)]
pub struct Arguments {
    /// Where the locks are.
    #[command(flatten)]
    pub server: Server,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the locks are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// The server: redis[s]://[USER[:PASSWORD]@]HOST[:PORT][/DB] or unix:///PATH[?db=N&user=USER&pass=PASSWORD]
    ///
    /// Everybody on the host can read it in a listing of processes: put a URL with a password into a file
    /// (--url-file) or into PORTALOCK_URL.
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    pub url: Option<String>,
    /// A file whose first line is the server's URL; - for standard input
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "url")]
    pub url_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: Tls,
}

/// How TLS is spoken with the server of a rediss:// URL.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS, with a rediss:// URL")]
pub struct Tls {
    /// A PEM file of the authorities to trust, instead of the system's
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_ca: Option<PathBuf>,
    /// A PEM file of the certificate to show, with --tls-key
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// A PEM file of the private key of --tls-cert
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Whom the server's certificate has to be for, instead of the URL's host
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Accept any certificate: whoever is on the way can read and change everything
    #[arg(long, global = true)]
    pub tls_insecure: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock
    ///
    /// Waits for the lock, runs the command, and lets go when it ends. Nobody else holds the lock
    /// meanwhile, on whichever host. The letters are those of flock(1).
    #[command(after_long_help = pages::RUN.text())]
    Run(Run),
    /// Show who holds a lock and who waits for it
    ///
    /// Lists the members of each lock, holders first and then who waits, in the order in which they will be
    /// served. Each member describes itself, times by its own clock. Looking takes no place in the queue.
    #[command(after_long_help = pages::HOLDERS.text())]
    Holders(Holders),
    /// Wait until a lock is free, without taking it
    ///
    /// Looks again and again, at least once a second, until nobody holds the lock or waits for it. When this
    /// ends somebody else may have taken it already: whoever is to be alone uses `portalock run`.
    #[command(after_long_help = pages::WAIT.text())]
    Wait(Wait),
    /// End the connections of members that do not answer
    ///
    /// Asks everybody on the lock's channel for a sign of life, and ends the connections of those who give
    /// none: processes that are stopped, or hosts that are gone and that the server has not noticed.
    /// Whoever waits for the lock does the same, so this is for locks that nobody waits for.
    #[command(after_long_help = pages::REAP.text())]
    Reap(Reap),
    /// Look what about a server endangers the locks on it
    ///
    /// Looks at what kind of server it is, at its settings, at what the user may do there, and at the way to
    /// it, and says of each thing that is not as it should be why it matters and how it is mended. Changes
    /// nothing on the server.
    #[command(after_long_help = pages::DOCTOR.text())]
    Doctor(Doctor),
}

/// Of `portalock run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Hold the lock alone; so it is unless -s is given
    #[arg(short = 'x', visible_short_alias = 'e', long, overrides_with = "shared")]
    #[arg(help_heading = "Lock")]
    pub exclusive: bool,
    /// Hold it together with others who give -s
    #[arg(short, long, overrides_with = "exclusive", help_heading = "Lock")]
    pub shared: bool,
    /// Do not wait, whatever -w says: end with the conflict exit code if somebody else holds it
    #[arg(short, long, visible_alias = "nb", help_heading = "Lock")]
    pub nonblock: bool,
    /// Wait so long at the most, then end with the conflict exit code; 0 is -n
    ///
    /// Without this and without -n the wait has no end, but a server that cannot be reached at its
    /// beginning ends it. Within this time such a server is tried again.
    #[arg(short, long, visible_alias = "timeout", value_name = "SECONDS")]
    #[arg(value_parser = seconds, help_heading = "Lock")]
    pub wait: Option<Duration>,
    /// The exit status if -n or -w ends the wait, 0 to 255
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1, help_heading = "Lock")]
    pub conflict_exit_code: u8,
    /// A text shown to whoever asks who holds the lock, up to 256 bytes
    #[arg(long, value_name = "TEXT", help_heading = "Lock")]
    pub label: Option<String>,
    /// Draw a fencing token, a number higher than all before, into PORTALOCK_FENCING_TOKEN
    #[arg(long, help_heading = "Lock")]
    pub fence_env: bool,
    /// Run this by the shell ($SHELL, or /bin/sh) with -c
    #[arg(short = 'c', long = "command", value_name = "COMMAND", conflicts_with = "program")]
    #[arg(value_hint = ValueHint::CommandString, help_heading = "Command")]
    pub shell_command: Option<OsString>,
    /// What becomes of the command if the lock is lost while it runs
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Kill)]
    #[arg(help_heading = "Command")]
    pub on_lost: OnLost,
    /// How long the command has to end before it is killed, with --on-lost=kill
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    #[arg(help_heading = "Command")]
    pub grace: Duration,
    /// Let the command see the password in PORTALOCK_URL, which is taken out otherwise
    #[arg(long, help_heading = "Command")]
    pub keep_url: bool,
    /// Has no effect: the command never has the lock's connection
    #[arg(short = 'o', long, help_heading = "Command")]
    pub close: bool,
    /// Say when the wait begins, when it is over, and why it has come to nothing
    #[arg(short, long)]
    pub verbose: bool,
    #[arg(short = 'u', long, hide = true)]
    unlock: bool,
    #[arg(short = 'F', long, hide = true)]
    no_fork: bool,
    /// The lock
    pub name: String,
    /// The command with its arguments, after -- if you like
    #[arg(value_name = "CMD", required_unless_present = "shell_command", trailing_var_arg = true)]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

impl Run {
    /// How long to wait at the most; `None` without an end.
    pub fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }

    /// Why an option of flock(1) is none of ours.
    pub fn refusal(&self) -> Option<&'static str> {
        if self.unlock {
            return Some("-u is not for locks that end with the command that runs under them");
        }
        let text = "-F cannot be: the lock is held by a process that stays beside the command";
        self.no_fork.then_some(text)
    }
}

/// What becomes of a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnLost {
    /// SIGTERM, and SIGKILL to what is left after the time of --grace
    Kill,
    /// SIGTERM alone
    Term,
    /// It goes on, and its exit status counts
    Ignore,
}

/// Of `portalock holders`.
#[derive(Debug, Args)]
pub struct Holders {
    /// The locks
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Print one line of JSON, an array with an object for each lock
    #[arg(long)]
    pub json: bool,
    /// Look again every second, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// How long members have to answer
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = positive_seconds)]
    pub timeout: Duration,
}

/// Of `portalock wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// The lock
    pub name: String,
    /// Look once, whatever -w says
    #[arg(short, long, visible_alias = "nb")]
    pub nonblock: bool,
    /// Wait so long at the most, then end with the conflict exit code; 0 is -n
    #[arg(short, long, visible_alias = "timeout", value_name = "SECONDS", value_parser = seconds)]
    pub wait: Option<Duration>,
    /// The exit status if the lock is not free by then, 0 to 255
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = 1)]
    pub conflict_exit_code: u8,
}

impl Wait {
    /// How long to wait at the most; `None` without an end.
    pub fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }
}

/// Of `portalock reap`.
#[derive(Debug, Args)]
pub struct Reap {
    /// The lock
    pub name: String,
    /// How long members have to answer
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = positive_seconds)]
    pub timeout: Duration,
}

/// Of `portalock doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The server, in the place of --url
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    #[arg(conflicts_with_all = ["url", "url_file"])]
    pub server: Option<String>,
    /// A lock that is to be used there: look whether the user may use its channels, too
    #[arg(short, long, value_name = "NAME")]
    pub lock: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Take a lock of its own a few times, and show what this process has counted meanwhile
    #[arg(long)]
    pub stats: bool,
    /// How long it all may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = positive_seconds)]
    pub timeout: Duration,
}

/// The longest span that the library takes: a year.
const MAX_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

/// A span of time in seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=MAX_SECONDS).contains(&number) {
        return Err("a span is zero to a year".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

/// A span that is not zero.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    let span = seconds(text)?;
    match span < Duration::from_millis(1) {
        true => Err("at least a millisecond is needed".to_owned()),
        false => Ok(span),
    }
}
