//! A home's certificate, its key, and whom it believes.

use super::fingerprint::Fingerprint;
use super::peers::Peers;
use super::trust::Trust;
use crate::Error;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Plaintext that one call may hand over: with more, fewer system calls carry it.
const BUFFER_BYTES: usize = 1024 * 1024;

/// Name of the certificate that is shown when none is named.
pub const CERTIFICATE_DEFAULT: &str = "drover";

/// A certificate with its key, and whom its owner believes.
///
/// The files are read anew for each connection, so that a renewed certificate or a new peer needs no restart.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
    peers: Peers,
}

impl Identity {
    /// `NAME.crt` and `NAME.key` of the home's `dircrd`, with the authorities in its `ca.crt` and the peers in its `peers`.
    pub fn of(dircrd: &Path, name: &str) -> Identity {
        Identity {
            certificate: dircrd.join(format!("{name}.crt")),
            key: dircrd.join(format!("{name}.key")),
            authorities: dircrd.join("ca.crt"),
            peers: Peers::of(dircrd),
        }
    }

    /// Makes the two files: a new key, and a certificate for these host names that it has signed itself.
    ///
    /// # Errors
    /// [`Error::Certificate`], also when one of the files is there.
    pub fn create(&self, hosts: Vec<String>) -> Result<Fingerprint, Error> {
        let made = || -> Result<(KeyPair, rcgen::Certificate), rcgen::Error> {
            let mut parameters = CertificateParams::new(hosts)?;
            let mut name = DistinguishedName::new();
            name.push(DnType::CommonName, self.name());
            parameters.distinguished_name = name;
            parameters.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate()?;
            let certificate = parameters.self_signed(&key)?;
            Ok((key, certificate))
        };
        let (key, certificate) = made().map_err(|cause| refused("no certificate could be made", cause))?;
        let unwritable = |file: &Path| {
            let what = format!("could not create {}", file.display());
            move |cause: io::Error| refused(what, cause)
        };
        put_new(&self.key, key.serialize_pem().as_bytes(), 0o600).map_err(unwritable(&self.key))?;
        put_new(&self.certificate, certificate.pem().as_bytes(), 0o644).map_err(unwritable(&self.certificate))?;
        Ok(Fingerprint::of(certificate.der()))
    }

    /// The fingerprint of its certificate.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        let chain = certificates(&self.certificate)?;
        let first = chain.first().ok_or_else(|| self.without_certificate())?;
        Ok(Fingerprint::of(first))
    }

    /// A session with `host`, before its handshake.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn client(&self, host: &str) -> Result<ClientConnection, Error> {
        let (chain, key) = self.own()?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|cause| refused("TLS 1.3 can't be used", cause))?
            .dangerous()
            .with_custom_certificate_verifier(self.trust(provider)?)
            .with_client_auth_cert(chain, key)
            .map_err(|cause| self.unusable(cause))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|cause| refused(format!("{host} is no name that a certificate could be for"), cause))?;
        let session = ClientConnection::new(Arc::new(config), name);
        let mut session = session.map_err(|cause| refused("no session can be made", cause))?;
        session.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(session)
    }

    /// A session with whoever connected, before its handshake. He must show a certificate that is believed.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn server(&self) -> Result<ServerConnection, Error> {
        let (chain, key) = self.own()?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|cause| refused("TLS 1.3 can't be used", cause))?
            .with_client_cert_verifier(self.trust(provider)?)
            .with_single_cert(chain, key)
            .map_err(|cause| self.unusable(cause))?;
        let session = ServerConnection::new(Arc::new(config));
        let mut session = session.map_err(|cause| refused("no session can be made", cause))?;
        session.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(session)
    }

    /// The name of the peer who has this certificate, if it is believed for itself.
    pub(crate) fn peer(&self, certificate: &CertificateDer<'_>) -> Option<String> {
        let fingerprint = Fingerprint::of(certificate);
        let peers = self.peers.read().unwrap_or_default();
        peers.into_iter().find(|peer| peer.fingerprint == fingerprint).map(|peer| peer.name)
    }

    fn name(&self) -> String {
        self.certificate.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn own(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        self.check_key()?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|cause| self.unreadable_key(cause))?;
        Ok((certificates(&self.certificate)?, key))
    }

    /// A key that others can read is no secret.
    fn check_key(&self) -> Result<(), Error> {
        let mode = fs::metadata(&self.key).map_err(|cause| self.unreadable_key(cause))?.permissions().mode();
        if mode & 0o077 != 0 {
            let what = format!("the key file {} can be read by others than its owner", self.key.display());
            return Err(refused(what, io::Error::other(format!("its mode is {:o}, and must be 600", mode & 0o777))));
        }
        Ok(())
    }

    fn trust(&self, provider: Arc<rustls::crypto::CryptoProvider>) -> Result<Arc<Trust>, Error> {
        let file = self.peers.file();
        let peers = self.peers.read().map_err(|cause| refused(format!("{} can't be read", file.display()), cause))?;
        let mut roots = RootCertStore::empty();
        if self.authorities.exists() {
            for certificate in certificates(&self.authorities)? {
                let unusable =
                    |cause| refused(format!("a certificate in {} can't be used", self.authorities.display()), cause);
                roots.add(certificate).map_err(unusable)?;
            }
        }
        if peers.is_empty() && roots.is_empty() {
            let cause =
                format!("there is no line in {} and no certificate in {}", file.display(), self.authorities.display());
            return Err(refused("this home believes nobody", io::Error::other(cause)));
        }
        let trust = Trust::new(peers, roots, provider);
        trust.map(Arc::new).map_err(|cause| refused(format!("{} can't be used", self.authorities.display()), cause))
    }

    fn unreadable_key(&self, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
        refused(format!("the key file {} can't be read", self.key.display()), cause)
    }

    fn unusable(&self, cause: rustls::Error) -> Error {
        refused(format!("the certificate {} can't be used with its key", self.certificate.display()), cause)
    }

    fn without_certificate(&self) -> Error {
        let what = format!("the certificate file {} can't be used", self.certificate.display());
        refused(what, io::Error::other("there is no certificate in it"))
    }
}

/// Makes a file that must not be there yet.
fn put_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unreadable = |cause| refused(format!("the certificate file {} can't be read", file.display()), cause);
    CertificateDer::pem_file_iter(file).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}

pub(super) fn refused(what: impl Into<String>, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Certificate { what: what.into(), source: Box::new(cause) }
}
