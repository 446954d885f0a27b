//! A path to the server that passes bytes on, is cut, or falls silent both ways.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone)]
pub struct Proxy {
    pub url: String,
    silent: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let proxy = Self { url, silent: Arc::default(), streams: Arc::default() };
        let own = proxy.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // Refused while the server is away: as it would be without us, if a little later.
                if let Ok(far) = TcpStream::connect(("127.0.0.1", port)) {
                    own.join(near, far);
                }
            }
        });
        proxy
    }

    fn join(&self, near: TcpStream, far: TcpStream) {
        for (from, to) in [(&near, &far), (&far, &near)] {
            from.set_nodelay(true).unwrap();
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let silent = self.silent.clone();
            std::thread::spawn(move || pass_on(from, to, &silent));
        }
        let mut streams = self.streams.lock().unwrap();
        streams.retain(|stream| stream.peer_addr().is_ok());
        streams.extend([near, far]);
    }

    /// What is under way is held back, as a network does that retransmits, and not lost: the ends do not
    /// hear of each other meanwhile.
    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    pub fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while silent.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // While it is silent, the end of one side does not reach the other either.
    while silent.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
