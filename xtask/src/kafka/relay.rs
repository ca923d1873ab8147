//! One address for a broker that comes back on another port: clients stay what they are.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// Forwards connections to wherever the broker is now; while it is nowhere, they end at once.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    target: Arc<AtomicU16>,
    closed: Arc<AtomicBool>,
}

impl Relay {
    /// Listens on a port that was free.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        let port = listener.local_addr().context("no port")?.port();
        let target = Arc::new(AtomicU16::new(0));
        let closed = Arc::new(AtomicBool::new(false));
        let relay = Self { port, target: Arc::clone(&target), closed: Arc::clone(&closed) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if closed.load(Ordering::Acquire) {
                    break;
                }
                if let (Ok(client), port @ 1..) = (client, target.load(Ordering::Acquire)) {
                    // A broker that is just gone refuses: the client tries again.
                    let _refused = forward(client, port);
                }
            }
        });
        Ok(relay)
    }

    /// What clients connect to.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The broker is here from now on; 0 for nowhere.
    pub(crate) fn point_at(&self, port: u16) {
        self.target.store(port, Ordering::Release);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the listener, which then sees that it is done.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn forward(client: TcpStream, port: u16) -> io::Result<()> {
    let broker = TcpStream::connect(("127.0.0.1", port))?;
    for stream in [&client, &broker] {
        stream.set_nodelay(true)?;
    }
    let (to_broker, to_client) = (broker.try_clone()?, client.try_clone()?);
    thread::spawn(move || pump(client, to_broker));
    thread::spawn(move || pump(broker, to_client));
    Ok(())
}

/// Copies until one side ends, then ends the other.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let _ended = io::copy(&mut from, &mut to);
    for stream in [from, to] {
        let _gone = stream.shutdown(Shutdown::Both);
    }
}
