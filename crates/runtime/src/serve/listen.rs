//! Where a server listens. All addresses of a machine are those of both families, whichever of them it has.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// All addresses of the machine, of IPv4 too.
const ALL: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
/// Connections that wait to be accepted, as many as [`TcpListener::bind`] lets wait.
const BACKLOG: u32 = 1024;

/// Listens at this address; `[::]` is all addresses, and those of IPv4 alone on a machine without IPv6.
pub(crate) async fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    if addr.ip() == ALL {
        listen_at_all(addr.port(), both_families).await
    } else {
        TcpListener::bind(addr).await
    }
}

/// `bind` takes a port of both families, if the machine has both.
async fn listen_at_all(
    port: u16,
    bind: impl Fn(u16) -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    match bind(port) {
        // If it can't have any port, it isn't that this one is taken.
        Err(_) if bind(0).is_err() => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        bound => bound,
    }
}

fn both_families(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // Whatever the machine's default is (net.ipv6.bindv6only).
    SockRef::from(&socket).set_only_v6(false)?;
    // As `TcpListener::bind` does: connections of a process that has ended don't keep the port.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(ALL, port))?;
    socket.listen(BACKLOG)
}

/// The addresses by which this machine reaches itself. One without IPv6 has no `::1`.
#[cfg(test)]
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let all: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    all.into_iter()
        .filter(|ip| std::net::TcpListener::bind((*ip, 0)).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn all_addresses_are_those_of_both_families() {
        let listener = listen("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = own_addresses();
        assert!(own.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
        for ip in own {
            let client = TcpStream::connect((ip, port)).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.ip().to_canonical(), ip);
            assert_eq!(peer.port(), client.local_addr().unwrap().port());
        }
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_has_the_addresses_of_ipv4() {
        let listener = listen_at_all(0, |_| Err(io::ErrorKind::Unsupported.into())).await;
        let addr = listener.unwrap().local_addr().unwrap();
        assert_eq!(addr.ip(), Ipv4Addr::UNSPECIFIED);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_no_lack_of_ipv6() {
        fn taken(port: u16) -> io::Result<TcpListener> {
            if port > 0 {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let any = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            any.set_nonblocking(true)?;
            TcpListener::from_std(any)
        }
        let free = taken(0).unwrap().local_addr().unwrap().port();
        let error = listen_at_all(free, taken).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn an_address_of_one_family_stays_so() {
        let listener = listen("0.0.0.0:0".parse().unwrap()).await.unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
    }
}
