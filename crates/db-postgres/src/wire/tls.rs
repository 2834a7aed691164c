//! TLS in libpq's modes.

use super::Error;
use super::config::{Config, SslMode};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// A TLS session with `host`, before its handshake.
pub(crate) fn session(config: &Config, host: &str) -> Result<ClientConnection, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|cause| refuse("no protocol version can be used", cause))?;
    let verifier = verifier(config, provider)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let client = match (&config.ssl_certificate, &config.ssl_key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|cause| refuse(format!("the key file {} can't be read", key.display()), cause))?;
            builder
                .with_client_auth_cert(chain, secret)
                .map_err(|cause| refuse(format!("the certificate {} can't be used", certificate.display()), cause))?
        }
        _ => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|cause| refuse("the host's name can't stand in a certificate", cause))?;
    ClientConnection::new(Arc::new(client), name).map_err(|cause| refuse("no session can be made", cause))
}

fn verifier(config: &Config, provider: Arc<CryptoProvider>) -> Result<Arc<Verifier>, Error> {
    // As libpq does: root certificates make `require` check the chain.
    let chain = match (&config.ssl_root_certificate, config.ssl_mode) {
        (Some(file), SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|cause| {
                    refuse(format!("a root certificate in {} can't be used", file.display()), cause)
                })?;
            }
            let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|cause| refuse(format!("the root certificates in {} can't be used", file.display()), cause))?;
            Some(chain)
        }
        _ => None,
    };
    Ok(Arc::new(Verifier { chain, host: config.ssl_mode == SslMode::VerifyFull, provider }))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unreadable = |cause| refuse(format!("the certificate file {} can't be read", file.display()), cause);
    CertificateDer::pem_file_iter(file).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}

fn refuse(what: impl Into<String>, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Tls { what: what.into(), cause: Box::new(cause) }
}

/// Checks what the mode asks for: nothing, the chain, or the chain and the host.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    host: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is checked before the name, so a wrong name says that the chain is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.host => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
