//! Creates a certificate authority and the certificates that it signs. The certificate of a node is valid for servers
//! and for clients, because a node accepts connections and also opens connections to other nodes. The certificate of a
//! client is valid only for clients, so nobody can use it to accept connections as a node.

use anyhow::Context;
use firstseen_wire::tls::subject;
use jiff::civil::Date;
use jiff::{ToSpan, Zoned};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};

/// Prefix of the name of every authority.
const NAME: &str = "firstseen test authority";

/// Holder of a certificate.
pub(super) struct Role {
    common_name: String,
    names: Vec<String>,
    serves: bool,
}

impl Role {
    /// Returns the role of a node, which accepts connections and opens connections.
    pub(super) fn node(name: &str, names: impl Iterator<Item = String>) -> Self {
        let mut unique: Vec<String> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self { common_name: format!("node {name}"), names: unique, serves: true }
    }

    /// Returns the role of a client of the nodes. `names` determine what the client may do.
    pub(super) fn client(name: &str, names: Vec<String>) -> Self {
        Self { common_name: format!("client {name}"), names, serves: false }
    }

    /// Returns all names that the certificate contains.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

/// The authority that signs certificates.
pub(super) struct Authority {
    name: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new authority.
    pub(super) fn new() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        Self::named(name_of(&key), key)
    }

    /// Loads the authority from its key and its certificate, both in PEM form.
    pub(super) fn with_key(key: &str, certificate: &[u8]) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key).context("ca.key holds no private key that can sign")?;
        let subject = subject(certificate).context("ca.pem holds no certificate")?;
        let own = name_of(&key);
        let has_it = subject.windows(own.len()).any(|window| window == own.as_bytes());
        // Authorities of version 0.1 all have the same name.
        Self::named(if has_it { own } else { NAME.to_owned() }, key)
    }

    fn named(name: String, key: KeyPair) -> anyhow::Result<Self> {
        Ok(Self { issuer: Issuer::new(authority_params(&name)?, key), name })
    }

    /// Returns the authority's own certificate in PEM form.
    pub(super) fn certificate(&self, days: u32) -> anyhow::Result<String> {
        let mut params = authority_params(&self.name)?;
        limit(&mut params, days)?;
        Ok(params.self_signed(self.issuer.key())?.pem())
    }

    /// Returns the authority's key in PEM form.
    pub(super) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns a revocation list of the certificates with these serial numbers, in PEM form. The list does not expire
    /// before the authority does.
    pub(super) fn revoke(&self, serials: &[Vec<u8>], days: u32) -> anyhow::Result<String> {
        let [today, end] = dates(days)?;
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(today.0, today.1, today.2),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(today.0, today.1, today.2),
            next_update: date_time_ymd(end.0, end.1, end.2),
            crl_number: SerialNumber::from(serials.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }

    /// Returns a new certificate and its key, both in PEM form.
    pub(super) fn issue(&self, role: &Role, days: u32) -> anyhow::Result<(String, String)> {
        let mut params = CertificateParams::new(role.names.clone())?;
        params.distinguished_name = named(&role.common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.serves {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        limit(&mut params, days)?;
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}

/// Returns the name of a certificate authority. The name contains a part of the authority's key, so a new authority
/// practically never has the name of the authority that it replaces. If both had the same name, the revocation list of
/// one authority would be applied to certificates of the other.
fn name_of(key: &KeyPair) -> String {
    let id: String = key.public_key_raw().iter().rev().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{NAME} {id}")
}

/// Returns the certificate parameters of an authority. The parameters are computed from the name of the authority
/// alone, so they can be computed again whenever a further certificate must be signed. A user therefore needs to keep
/// only the key and the certificate of the authority.
fn authority_params(name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Limits the validity of a certificate. It starts yesterday, because clocks may differ, and ends `days` from now.
fn limit(params: &mut CertificateParams, days: u32) -> anyhow::Result<()> {
    let [from, until] = dates(days)?;
    params.not_before = date_time_ymd(from.0, from.1, from.2);
    params.not_after = date_time_ymd(until.0, until.1, until.2);
    Ok(())
}

/// Returns year, month and day of yesterday, and of the day that is `days` from now.
fn dates(days: u32) -> anyhow::Result<[(i32, u8, u8); 2]> {
    let today = Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date();
    let dates: [Date; 2] = [today.yesterday()?, today.checked_add(i64::from(days).days())?];
    Ok(dates.map(|date| (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())))
}
