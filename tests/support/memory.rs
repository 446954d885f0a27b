//! A broker in memory in the place of a server: for tests that are alone in their process. The tests' own
//! commands come to it by a unix socket, as they would to a server.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use portalock::simulation::Door;

/// Makes a broker, and lets in who connects to the socket. Its name.
pub fn serve(socket: &Path) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("server-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let listener = UnixListener::bind(socket).unwrap();
    let of_thread = name.clone();
    thread::spawn(move || {
        for visitor in listener.incoming().map_while(Result::ok) {
            let door = Arc::new(Door::open(&of_thread).unwrap());
            let (inward, outward) = (Arc::clone(&door), visitor.try_clone().unwrap());
            thread::spawn(move || let_in(&inward, visitor));
            thread::spawn(move || let_out(&door, outward));
        }
    });
    name
}

fn let_in(door: &Door, mut visitor: UnixStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = visitor.read(&mut buffer) {
        if door.say(&buffer[..count]).is_err() {
            break;
        }
    }
    door.close();
}

fn let_out(door: &Door, mut visitor: UnixStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = door.hear(&mut buffer) {
        if visitor.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = visitor.shutdown(Shutdown::Both);
}
