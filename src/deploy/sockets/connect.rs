//! Opens a connection: name, TCP, TLS, each timed.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::io::{Plain, Socket, Stamps, Stream};
use crate::deploy::transport::TransportError;
use crate::units::Mono;
use crate::world::Clock;

pub(super) type Body = Full<bytes::Bytes>;

/// An open connection. Its lane drives it: nothing else reads the socket.
pub(super) struct Live {
    pub sender: SendRequest<Body>,
    pub connection: Connection<TokioIo<Plain>, Body>,
    pub stamps: Arc<Stamps>,
    /// What opening took; taken by the connection's first exchange.
    pub opening: Option<Opening>,
}

/// Durations of the parts of opening, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening {
    /// Absent where the url names an address.
    pub dns: Option<u64>,
    pub tcp: Option<u64>,
    /// Absent without TLS.
    pub tls: Option<u64>,
}

/// Why there is no connection.
pub(super) enum NotOpened {
    TimedOut,
    Failed(TransportError),
}

/// Where a target is, from its url.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub tls: bool,
    pub host: Host,
    pub port: u16,
    /// The `Host` header: with the port where it is not the scheme's own.
    pub authority: String,
}

impl Origin {
    pub(super) fn of(url: &str) -> Result<Origin, TransportError> {
        let bad = |reason: String| TransportError::Connect { address: "the deployment's `url`".to_owned(), reason };
        let url = Url::parse(url).map_err(|error| bad(format!("it is no url: {error}")))?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(bad(format!("`{other}` is neither http nor https"))),
        };
        let host = url.host().ok_or_else(|| bad("it names no host".to_owned()))?.to_owned();
        let port = url.port_or_known_default().unwrap_or(if tls { 443 } else { 80 });
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        Ok(Origin { tls, host, port, authority })
    }
}

/// TLS settings, made once for each `ca_file`, so that lanes share them.
#[derive(Debug, Default)]
pub(super) struct TlsConfigs {
    made: Mutex<Vec<(Option<PathBuf>, Arc<ClientConfig>)>>,
}

impl TlsConfigs {
    fn get(&self, ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
        let mut made = self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, config)) = made.iter().find(|(path, _)| path.as_deref() == ca_file) {
            return Ok(Arc::clone(config));
        }
        let config = client_config(ca_file)?;
        let config = Arc::new(config);
        made.push((ca_file.map(Path::to_owned), Arc::clone(&config)));
        Ok(config)
    }
}

/// TLS settings that trust `ca_file` alone, or without one Mozilla's roots. HTTP/1.1 is the one protocol offered.
pub fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let roots = match ca_file {
        Some(path) => read_roots(path)?,
        None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read_roots(path: &Path) -> Result<RootCertStore, String> {
    let unreadable = |error: rustls::pki_types::pem::Error| format!("can't read `{}`: {error}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(|error| format!("a certificate in `{}`: {error}", path.display()))?;
    }
    if roots.is_empty() {
        return Err(format!("`{}` holds no certificate", path.display()));
    }
    Ok(roots)
}

/// Opens a connection before `deadline`.
pub(super) async fn open(
    clock: Clock,
    origin: &Origin,
    tls: &TlsConfigs,
    ca_file: Option<&Path>,
    deadline: Mono,
) -> Result<Live, NotOpened> {
    let opening = connect(clock, origin, tls, ca_file, deadline);
    match tokio::time::timeout_at(clock.instant(deadline), opening).await {
        Ok(result) => result.map_err(NotOpened::Failed),
        Err(_) => Err(NotOpened::TimedOut),
    }
}

async fn connect(
    clock: Clock,
    origin: &Origin,
    tls: &TlsConfigs,
    ca_file: Option<&Path>,
    deadline: Mono,
) -> Result<Live, TransportError> {
    let mut opening = Opening::default();
    let start = clock.now();
    let addresses = resolve(origin).await?;
    let resolved = clock.now();
    opening.dns = resolved.since(start).filter(|_| matches!(origin.host, Host::Domain(_)));

    let tcp = dial(clock, &addresses, deadline).await?;
    // Without this a request's last packet waits for the acknowledgement of the one before.
    let _ = tcp.set_nodelay(true);
    let connected = clock.now();
    opening.tcp = connected.since(resolved);

    let stamps = Stamps::new(clock);
    let socket = Socket::new(tcp, Arc::clone(&stamps));
    let stream = if origin.tls {
        let stream = handshake(origin, tls, ca_file, socket).await?;
        opening.tls = clock.now().since(connected);
        Stream::Tls(Box::new(stream))
    } else {
        Stream::Tcp(socket)
    };
    let io = TokioIo::new(Plain::new(stream, Arc::clone(&stamps)));
    let (sender, connection) =
        Builder::new().handshake(io).await.map_err(|error| TransportError::Broken(super::chain(&error)))?;
    Ok(Live { sender, connection, stamps, opening: Some(opening) })
}

async fn resolve(origin: &Origin) -> Result<Vec<SocketAddr>, TransportError> {
    let name = match &origin.host {
        Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(IpAddr::V4(*ip), origin.port)]),
        Host::Ipv6(ip) => return Ok(vec![SocketAddr::new(IpAddr::V6(*ip), origin.port)]),
        Host::Domain(name) => name,
    };
    let failed = |reason: String| TransportError::Dns { host: name.clone(), reason };
    let found =
        tokio::net::lookup_host((name.as_str(), origin.port)).await.map_err(|error| failed(error.to_string()))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() { Err(failed("it has no address".to_owned())) } else { Ok(addresses) }
}

/// Tries one address after the other, each with an equal share of the time that is left: one that swallows packets
/// does not keep the next from its turn.
async fn dial(clock: Clock, addresses: &[SocketAddr], deadline: Mono) -> Result<TcpStream, TransportError> {
    let mut first_failure = None;
    for (index, address) in addresses.iter().enumerate() {
        let now = clock.now();
        let left = deadline.since(now).unwrap_or(0) / (addresses.len() - index) as u64;
        let until = clock.instant(now.plus_ns(left));
        let failure = match tokio::time::timeout_at(until, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => not_dialed(address, &error),
            // The last one's time is the whole deadline, which ends the opening from outside.
            Err(_) if index + 1 == addresses.len() => std::future::pending().await,
            Err(_) => TransportError::Connect { address: address.to_string(), reason: "no answer in time".to_owned() },
        };
        first_failure.get_or_insert(failure);
    }
    Err(first_failure.unwrap_or_else(|| TransportError::Broken("there is no address to connect to".to_owned())))
}

/// Why a connection could not be made. Ports and file handles that ran out here are no fault of the deployment.
fn not_dialed(address: &SocketAddr, error: &std::io::Error) -> TransportError {
    const TOO_MANY_FILES: [i32; 2] = [23, 24]; // ENFILE, EMFILE
    let connect = |reason: String| TransportError::Connect { address: address.to_string(), reason };
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => connect("connection refused; is the server running there?".to_owned()),
        std::io::ErrorKind::AddrNotAvailable => TransportError::Local {
            reason: format!("{error}; no free port may be left for {address}, lower the concurrency or wait a minute"),
        },
        _ if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) => {
            TransportError::Local { reason: format!("{error}; raise the limit of open files (`ulimit -n`)") }
        }
        _ => connect(error.to_string()),
    }
}

async fn handshake(
    origin: &Origin,
    tls: &TlsConfigs,
    ca_file: Option<&Path>,
    socket: Socket,
) -> Result<tokio_rustls::client::TlsStream<Socket>, TransportError> {
    let failed = |reason: String| TransportError::Tls { host: origin.host.to_string(), reason };
    let config = tls.get(ca_file).map_err(failed)?;
    let name = match &origin.host {
        Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| failed(error.to_string()))?,
        Host::Ipv4(ip) => ServerName::IpAddress(IpAddr::V4(*ip).into()),
        Host::Ipv6(ip) => ServerName::IpAddress(IpAddr::V6(*ip).into()),
    };
    TlsConnector::from(config).connect(name, socket).await.map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_not_the_deployments_fault() {
        let address = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);
        let failure = |error: std::io::Error| not_dialed(&address, &error);
        for error in [std::io::Error::from_raw_os_error(24), std::io::ErrorKind::AddrNotAvailable.into()] {
            let failure = failure(error);
            assert!(matches!(failure, TransportError::Local { .. }) && !failure.before_connection(), "{failure}");
        }
        for kind in [std::io::ErrorKind::ConnectionRefused, std::io::ErrorKind::HostUnreachable] {
            assert!(failure(kind.into()).before_connection(), "{kind}");
        }
    }

    #[test]
    fn an_origin_is_read_from_the_url() {
        let origin = |url: &str| Origin::of(url).map(|o| (o.tls, o.port, o.authority));
        assert_eq!(origin("http://127.0.0.1:8101/v1"), Ok((false, 8101, "127.0.0.1:8101".to_owned())));
        assert_eq!(origin("https://api.example.com/v1?x=1"), Ok((true, 443, "api.example.com".to_owned())));
        assert_eq!(origin("http://[::1]:80/v1"), Ok((false, 80, "[::1]".to_owned())));
        assert_eq!(origin("http://[::1]:8080"), Ok((false, 8080, "[::1]:8080".to_owned())));
        for url in ["ftp://x/", "no url", "http://", "unix:/tmp/x"] {
            assert!(matches!(Origin::of(url), Err(TransportError::Connect { .. })), "{url}");
        }
    }
}
