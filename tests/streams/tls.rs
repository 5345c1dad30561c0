//! Lanes over TLS: a private authority, a wrong name, no trust.

use std::path::PathBuf;
use std::sync::Arc;

use counterpoise::deploy::{Dialect, OpenAiChat, Outcome};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::server::{bounded, fixtures, lane, listen, read_request, request, target, timeouts};

/// Serves a recording over TLS to every connection, with a certificate for `localhost` and 127.0.0.1 of its own
/// authority; returns the port and the authority's file.
async fn serve(folder: &tempfile::TempDir) -> (u16, PathBuf, tokio::task::JoinHandle<()>) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = parameters.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority_pem).unwrap();

    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, address) = listen().await;
    let raw = std::fs::read(fixtures().join("vllm-chat.http")).unwrap();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
            while read_request(&mut stream).await.is_some() {
                stream.write_all(&raw).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    });
    (address.port(), ca_file, server)
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_named() {
    let folder = tempfile::tempdir().unwrap();
    let (port, ca_file, server) = serve(&folder).await;
    for host in ["localhost", "127.0.0.1"] {
        let mut target = target(&format!("https://{host}:{port}/v1"), timeouts(10_000));
        target.ca_file = Some(ca_file.clone());
        let mut lane = lane(&target);
        let request = request(&target, true);
        bounded(lane.open()).await.unwrap();
        for index in 0..2 {
            let exchanged = bounded(lane.exchange(&request, &OpenAiChat)).await;
            let reply = OpenAiChat.read(&exchanged);
            assert_eq!(reply.outcome, Outcome::Truncated);
            assert_eq!(reply.usage.completion_tokens, Some(24));
            let marks = exchanged.marks;
            assert_eq!(marks.tls_ns.is_some(), index == 0);
            assert!(marks.sent.unwrap() >= marks.dispatched && marks.sent <= marks.first_byte);
        }
        assert!(lane.is_open());
    }
    server.abort();
}

#[tokio::test]
async fn an_unknown_authority_is_unreachable_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (port, _, server) = serve(&folder).await;
    let target = target(&format!("https://localhost:{port}/v1"), timeouts(10_000));
    let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!(reply.outcome, Outcome::Unreachable);
    assert!(reply.error.as_deref().unwrap().contains("TLS with `localhost` failed"), "{reply:?}");
    server.abort();
}

#[tokio::test]
async fn a_bad_ca_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (port, ca_file, server) = serve(&folder).await;
    std::fs::write(folder.path().join("empty.pem"), "nothing").unwrap();
    for (file, part) in [("missing.pem", "can't read"), ("empty.pem", "holds no certificate")] {
        let mut target = target(&format!("https://localhost:{port}/v1"), timeouts(10_000));
        target.ca_file = Some(ca_file.with_file_name(file));
        let error = bounded(lane(&target).open()).await.unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(file), "{error}");
    }
    server.abort();
}

#[tokio::test]
async fn a_server_without_tls_is_told_apart() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(super::server::serve_once(listener, vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]));
    let target = target(&format!("https://{address}/v1"), timeouts(2_000));
    let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
    let outcome = OpenAiChat.read(&exchanged).outcome;
    assert!(matches!(outcome, Outcome::Unreachable | Outcome::Timeout(_)), "{outcome:?}");
    server.abort();
}
