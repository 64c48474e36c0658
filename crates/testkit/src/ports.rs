//! Free TCP ports of the loopback address. It knows nothing of who will listen there.
//!
//! Asking the kernel for "any port" and closing it again is a race twice over: another test may be told the same
//! number, and an outgoing connection may take it as its own end. So ports are taken from below the kernel's range of
//! such ephemeral ports, each held by a lock on a file that all processes of this user share. The lock goes when its
//! holder goes, however it ends.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port that is tried; below lie well-known services.
const FIRST: u16 = 20_000;
/// Where Linux' ephemeral ports begin unless it is told otherwise.
const DEFAULT_EPHEMERAL: u16 = 32_768;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that no other user of this module gets while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a port that nobody listens on.
    pub fn reserve() -> io::Result<Self> {
        let directory = std::env::temp_dir().join(format!(
            "pilotage-testkit-ports-{}",
            rustix::process::getuid().as_raw()
        ));
        fs::create_dir_all(&directory)?;
        let end = ephemeral_start().max(FIRST + 1_000);
        let span = end - FIRST;
        // Processes begin at different places, so that they seldom try the same number.
        let start = (std::process::id() % u32::from(span)) as u16;
        for _ in 0..span {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % span;
            let number = FIRST + ((u32::from(start) + u32::from(step)) % u32::from(span)) as u16;
            let Ok(lock) = File::create(directory.join(number.to_string())) else {
                continue;
            };
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "no free port between 20000 and the ephemeral ones",
        ))
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The address on the loopback interface.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

fn ephemeral_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(DEFAULT_EPHEMERAL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_distinct_and_free() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let numbers: BTreeSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), 50);
        for port in &ports {
            TcpListener::bind(port.address()).unwrap();
        }
    }
}
