//! Tests of access control with certificates, over loopback connections with and without TLS. The tests check which
//! peers complete the handshake, and which roles these peers get.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use firstseen_wire::net::{self, Connector, Mismatch, TcpConnector};
use firstseen_wire::proto::producer::producer_server::Producer;
use firstseen_wire::proto::producer::{
    ClusterMap, DescribeFilterReply, DescribeFilterRequest, ObserveReply, ObserveRequest, WatchMapRequest,
};
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tls::{
    ADMIN_NAME, CLIENT_NAME, NODE_NAME, PeerRoles, ServerFiles, TlsError, TlsFiles, is_node_named, peer_roles, serial,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status, Streaming};

/// Service that tells its callers which roles it sees in their certificates.
struct Mirror;

const NODE: u64 = 1;
const CLIENT: u64 = 2;
const ADMIN: u64 = 4;
const NODE_A: u64 = 8;

#[tonic::async_trait]
impl Producer for Mirror {
    type ObserveStream = tokio_stream::Empty<Result<ObserveReply, Status>>;
    type WatchMapStream = tokio_stream::Empty<Result<ClusterMap, Status>>;

    async fn observe(&self, _: Request<Streaming<ObserveRequest>>) -> Result<Response<Self::ObserveStream>, Status> {
        Err(ErrorKind::Unsupported.status("a mirror"))
    }

    async fn watch_map(&self, _: Request<WatchMapRequest>) -> Result<Response<Self::WatchMapStream>, Status> {
        Err(ErrorKind::Unsupported.status("a mirror"))
    }

    async fn describe_filter(
        &self,
        request: Request<DescribeFilterRequest>,
    ) -> Result<Response<DescribeFilterReply>, Status> {
        let certs = request.peer_certs().unwrap_or_default();
        let PeerRoles { node, client, admin } = peer_roles(&certs);
        let found = [(node, NODE), (client, CLIENT), (admin, ADMIN), (is_node_named(&certs, "a"), NODE_A)];
        let clock_ms = found.iter().filter(|(is_so, _)| *is_so).map(|(_, role)| role).sum();
        Ok(Response::new(DescribeFilterReply { clock_ms, ..Default::default() }))
    }
}

/// Certificate authority with the folder for the files that it signs.
struct Authority<'a> {
    folder: &'a Path,
    name: &'static str,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn new(folder: &'a Path, name: &'static str) -> Self {
        Self::called(folder, name, "rcgen")
    }

    /// Creates an authority with this common name in its certificate. Peers tell authorities apart by the common name.
    fn called(folder: &'a Path, name: &'static str, common_name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, common_name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        fs::write(folder.join(format!("{name}-ca.pem")), issuer.pem()).expect("a file");
        Self { folder, name, issuer }
    }

    /// Creates the certificate files for a peer with these DNS names.
    fn sign(&self, file: &str, names: &[&str]) -> TlsFiles {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let key = KeyPair::generate().expect("a key");
        let cert = CertificateParams::new(names).expect("names").signed_by(&key, &self.issuer).expect("a certificate");
        let path = |suffix: &str| self.folder.join(format!("{}-{suffix}", self.name));
        let files =
            TlsFiles { ca: path("ca.pem"), cert: path(&format!("{file}.pem")), key: path(&format!("{file}.key")) };
        fs::write(&files.cert, cert.pem()).expect("a file");
        fs::write(&files.key, key.serialize_pem()).expect("a file");
        files
    }
}

impl Authority<'_> {
    /// Creates a revocation list that revokes the certificate in these files.
    fn revoke(&self, files: &TlsFiles) -> PathBuf {
        let serial = serial(&fs::read(&files.cert).expect("a file")).expect("a certificate");
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from_slice(&serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.folder.join(format!("{}.crl", self.name));
        fs::write(&path, list.signed_by(&self.issuer).expect("a list").pem().expect("PEM")).expect("a file");
        path
    }
}

fn chain(files: &TlsFiles) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(&fs::read(&files.cert).expect("a file")).expect("a certificate")]
}

/// Checks that a broken file does not delay changes of other files, and that the node continues with the files that it
/// had.
#[tokio::test]
async fn files_that_cannot_be_used_leave_the_former_ones_in_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) =
        (Authority::called(folder.path(), "ours", "ours"), Authority::called(folder.path(), "theirs", "theirs"));
    let tls = ours.sign("a", &[NODE_NAME, "a.node.firstseen"]);
    let [other, client] = [ours.sign("d", &[NODE_NAME, "d.node.firstseen"]), ours.sign("client", &[CLIENT_NAME])];
    let crl = ours.revoke(&other);
    let own = [&tls.cert, &tls.key].map(|path| (path.clone(), fs::read(path).expect("a file")));
    let files = ServerFiles { tls: tls.clone(), crl: Some(crl), node_name: Some("a".to_owned()), tokens: false };
    let node = files.server().expect("files of a node");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    assert_eq!(node.accepts_itself(now), Ok(()));
    assert_eq!(node.look_again(now), (false, Vec::new()));
    assert!(node.still_accepts(&chain(&client), now).is_ok() && node.still_accepts(&chain(&other), now).is_err());
    assert!(node.still_accepts(&[], now).is_err());

    // The certificate is replaced with that of another node, and a list revokes the certificate of the client.
    fs::copy(&other.cert, &tls.cert).and_then(|_| fs::copy(&other.key, &tls.key)).expect("files");
    ours.revoke(&client);
    let (has_changed, complaints) = node.look_again(now);
    assert!(has_changed && complaints.len() == 1 && complaints[0].contains("not that of node `a`"), "{complaints:?}");
    assert!(node.still_accepts(&chain(&client), now).is_err(), "the certificate must be revoked nevertheless");
    let address = serve(Some(&ours.sign("b", &[NODE_NAME]))).await;
    let dials = TcpConnector { tls: Some(node.client()), token: None };
    assert_eq!(
        ask(&dials, &address, None).await.expect("let in"),
        NODE | NODE_A,
        "the node must present its own certificate"
    );

    // The new authorities would not accept the node itself, so the node keeps the old authorities.
    own.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("a file"));
    let former = fs::read(&tls.ca).expect("a file");
    fs::copy(folder.path().join("theirs-ca.pem"), &tls.ca).expect("a file");
    let (_, complaints) = node.look_again(now);
    assert!(complaints[0].contains("the node's own certificate is not accepted"), "{complaints:?}");
    assert!(node.still_accepts(&chain(&theirs.sign("client", &[CLIENT_NAME])), now).is_err());
    fs::write(&tls.ca, [former, fs::read(folder.path().join("theirs-ca.pem")).expect("a file")].concat()).expect("it");
    assert_eq!(node.look_again(now), (true, Vec::new()), "both are");
    assert_eq!(node.still_accepts(&chain(&theirs.sign("client", &[CLIENT_NAME])), now), Ok(()));

    // The certificate of a node to which this node connects can be revoked too.
    let revoked = ours.sign("c", &[NODE_NAME]);
    let address = serve(Some(&revoked)).await;
    assert!(ask(&dials, &address, None).await.is_ok());
    ours.revoke(&revoked);
    assert_eq!(node.look_again(now), (true, Vec::new()));
    assert!(ask(&dials, &address, None).await.is_err(), "its certificate is revoked");
}

async fn serve(tls: Option<&TlsFiles>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let tls = tls.map(|files| files.server().expect("files of a server"));
    let router = net::server_builder().add_service(net::producer_server(Mirror));
    let mut incoming = net::incoming(listener);
    match tls {
        None => drop(tokio::spawn(router.serve_with_incoming(incoming))),
        Some(tls) => {
            let (accepted, streams) = mpsc::channel(1);
            tokio::spawn(router.serve_with_incoming(ReceiverStream::new(streams)));
            tokio::spawn(async move {
                while let Some(Ok(stream)) = incoming.next().await {
                    let Ok(stream) = tls.accept(stream).await else { continue };
                    accepted.send(io::Result::Ok(stream)).await.expect("the server still accepts connections");
                }
            });
        }
    }
    address
}

/// Returns the roles that the server sees in the caller's certificate.
async fn ask(connector: &TcpConnector, address: &str, node_name: Option<&str>) -> Result<u64, Status> {
    let channel = connector.channel(address, node_name).expect("an address");
    let reply = net::producer_client(channel).describe_filter(DescribeFilterRequest::default()).await?;
    Ok(reply.into_inner().clock_ms)
}

fn connector(files: &TlsFiles) -> TcpConnector {
    TcpConnector { tls: Some(files.client().expect("files of a client")), token: None }
}

#[tokio::test]
async fn names_that_the_authority_has_signed_are_roles() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    let node_a = ours.sign("a", &[NODE_NAME, "a.node.firstseen"]);
    let address = serve(Some(&node_a)).await;
    let roles: [(&[&str], u64); 6] = [
        (&[NODE_NAME, "a.node.firstseen"], NODE | NODE_A),
        (&[NODE_NAME, "b.node.firstseen"], NODE),
        (&["a.node.firstseen"], 0),
        (&[CLIENT_NAME], CLIENT),
        (&[ADMIN_NAME, CLIENT_NAME], ADMIN | CLIENT),
        (&["example.org"], 0),
    ];
    for (names, role) in roles {
        let connector = connector(&ours.sign("caller", names));
        assert_eq!(ask(&connector, &address, None).await.expect("let in"), role, "{names:?}");
        assert_eq!(ask(&connector, &address, Some("a")).await.expect("let in"), role, "{names:?}");
        assert!(ask(&connector, &address, Some("b")).await.is_err(), "node a is not node b");
    }
}

#[tokio::test]
async fn others_do_not_get_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::new(folder.path(), "ours"), Authority::new(folder.path(), "theirs"));
    let address = serve(Some(&ours.sign("a", &[NODE_NAME]))).await;
    let client = ours.sign("client", &[CLIENT_NAME]);
    assert_eq!(ask(&connector(&client), &address, None).await.expect("let in"), CLIENT);

    let stranger = theirs.sign("client", &[CLIENT_NAME]);
    assert!(ask(&connector(&stranger), &address, None).await.is_err(), "the stranger does not trust the server");
    let trusting = TlsFiles { ca: client.ca.clone(), ..stranger };
    assert!(
        ask(&connector(&trusting), &address, None).await.is_err(),
        "the certificate is signed by another authority"
    );

    let ca = Certificate::from_pem(fs::read(&client.ca).expect("the file"));
    let nameless = ClientTlsConfig::new().ca_certificate(ca).domain_name(NODE_NAME);
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("an address");
    let channel = net::without_token(endpoint.tls_config(nameless).expect("a configuration").connect_lazy());
    assert!(net::producer_client(channel).describe_filter(DescribeFilterRequest::default()).await.is_err());
    assert!(ask(&TcpConnector::default(), &address, None).await.is_err(), "a client without TLS must be refused");

    let impostor = serve(Some(&ours.sign("impostor", &[CLIENT_NAME]))).await;
    assert!(ask(&connector(&client), &impostor, None).await.is_err(), "a client's certificate is not a node's");
    let plain = serve(None).await;
    assert!(ask(&connector(&client), &plain, None).await.is_err(), "a server without TLS");
    assert_eq!(ask(&TcpConnector::default(), &plain, None).await.expect("plain to plain"), 0);
}

/// Starts a server that speaks only HTTP/1.
async fn serve_http1() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
        }
    });
    address
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_connection_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::new(folder.path(), "ours"), Authority::new(folder.path(), "theirs"));
    let secure = serve(Some(&ours.sign("a", &[NODE_NAME, "a.node.firstseen"]))).await;
    let (plain, http1) = (serve(None).await, serve_http1().await);
    let files = ours.sign("client", &[CLIENT_NAME]);
    let stranger = theirs.sign("client", &[CLIENT_NAME]);
    let trusting = connector(&TlsFiles { ca: files.ca.clone(), ..stranger.clone() });
    let (open, client, stranger) = (TcpConnector::default(), connector(&files), connector(&stranger));
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    for (connector, address, node_name, expected) in [
        (&open, &secure, None, Some(Mismatch::SpeaksTls)),
        (&open, &http1, None, Some(Mismatch::SpeaksHttp1)),
        (&open, &plain, None, None),
        (&open, &nobody, None, None),
        (&client, &plain, None, Some(Mismatch::SpeaksPlain)),
        (&client, &http1, None, Some(Mismatch::SpeaksHttp1)),
        (&client, &secure, None, None),
        (&client, &secure, Some("a"), None),
        (&client, &secure, Some("b"), Some(Mismatch::OtherName { expected: "b.node.firstseen".to_owned() })),
        (&client, &nobody, None, None),
        (&stranger, &secure, None, Some(Mismatch::UnknownAuthority)),
        (&trusting, &secure, None, Some(Mismatch::NotAccepted { reason: "DecryptError".to_owned() })),
    ] {
        let found = connector.examine(address, node_name).await;
        assert_eq!(found, expected, "{address} of {secure} (TLS), {plain} (plain), {http1} (HTTP/1), {nobody}");
        // Clients examine an address only after a connection has failed. So an address that works must have no finding,
        // and one with a finding must not work.
        let works = ask(connector, address, node_name).await.is_ok();
        assert!(!works || expected.is_none(), "{address}, {node_name:?}: {expected:?}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    let (good, other) = (ours.sign("a", &[NODE_NAME]), ours.sign("b", &[NODE_NAME]));
    assert!(good.client().is_ok() && good.server().is_ok());

    let missing = TlsFiles { key: PathBuf::from("/nowhere/node.key"), ..good.clone() };
    let error = missing.client().err().expect("no such file");
    assert!(matches!(error, TlsError::Read { .. }) && error.to_string().contains("/nowhere/node.key"), "{error}");

    let swapped = TlsFiles { cert: good.key.clone(), ..good.clone() };
    let error = swapped.server().err().expect("a key is no certificate");
    assert!(matches!(error, TlsError::NotPem { .. }) && error.to_string().contains("BEGIN CERTIFICATE"), "{error}");

    let mismatched = TlsFiles { key: other.key.clone(), ..good.clone() };
    for error in [mismatched.client().err(), mismatched.server().err()] {
        let error = error.expect("the key of another certificate");
        assert!(matches!(error, TlsError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(&other.key.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_address_is_refused_at_once() {
    let connector = TcpConnector::default();
    for address in ["", "host", "host:", ":1", "host:port", "http://host:1", "host:1/path", "user@host:1", "host:99999"]
    {
        let error = connector.channel(address, None).err().unwrap_or_else(|| panic!("`{address}` was taken"));
        assert!(error.to_string().contains("host:port"), "{error}");
    }
    for address in ["host:1", "127.0.0.1:4870", "[::1]:4870", "a.b.example:65535"] {
        assert!(connector.channel(address, None).is_ok(), "{address}");
    }
}
