//! Whether a certificate that somebody shows is believed.

use super::fingerprint::Fingerprint;
use super::peers::Peer;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// Believes the certificates of the peers, whatever name and dates they have, and those that an authority has signed, if
/// their names and dates are right.
#[derive(Debug)]
pub(super) struct Trust {
    peers: Vec<Peer>,
    as_client: Option<Arc<WebPkiServerVerifier>>,
    as_server: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

/// Nobody believes this certificate.
#[derive(Debug, thiserror::Error)]
#[error("its certificate is neither a peer's nor signed by an authority that is believed here; its fingerprint is {0}")]
struct Stranger(Fingerprint);

impl Trust {
    /// `authorities` is empty when none is believed.
    ///
    /// # Errors
    /// What is wrong with the authorities.
    pub(super) fn new(
        peers: Vec<Peer>,
        authorities: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Trust, rustls::server::VerifierBuilderError> {
        let (mut as_client, mut as_server) = (None, None);
        if !authorities.is_empty() {
            let authorities = Arc::new(authorities);
            let (client, server) = (Arc::clone(&authorities), Arc::clone(&provider));
            as_client = Some(WebPkiServerVerifier::builder_with_provider(client, Arc::clone(&provider)).build()?);
            as_server = Some(WebPkiClientVerifier::builder_with_provider(authorities, server).build()?);
        }
        Ok(Trust { peers, as_client, as_server, provider })
    }

    fn is_peer(&self, certificate: &CertificateDer<'_>) -> bool {
        let fingerprint = Fingerprint::of(certificate);
        self.peers.iter().any(|peer| peer.fingerprint == fingerprint)
    }

    fn check(&self, message: &[u8], certificate: &CertificateDer<'_>, signed: &DigitallySignedStruct) -> Checked {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn check_old(&self, message: &[u8], certificate: &CertificateDer<'_>, signed: &DigitallySignedStruct) -> Checked {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

type Checked = Result<HandshakeSignatureValid, Error>;

/// The error for a certificate that no authority has signed names it.
fn named(error: Error, certificate: &CertificateDer<'_>) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => stranger(certificate),
        error => error,
    }
}

fn stranger(certificate: &CertificateDer<'_>) -> Error {
    let stranger = Stranger(Fingerprint::of(certificate));
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(stranger))))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_peer(certificate) {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(verifier) = &self.as_client else { return Err(stranger(certificate)) };
        verifier
            .verify_server_cert(certificate, intermediates, name, ocsp, now)
            .map_err(|error| named(error, certificate))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Checked {
        self.check_old(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Checked {
        self.check(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Trust {
    /// No names: whom this home believes is nobody else's business.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.is_peer(certificate) || change::sabotage::is_on("believe-strangers") {
            return Ok(ClientCertVerified::assertion());
        }
        let Some(verifier) = &self.as_server else { return Err(stranger(certificate)) };
        verifier.verify_client_cert(certificate, intermediates, now).map_err(|error| named(error, certificate))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Checked {
        self.check_old(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Checked {
        self.check(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
