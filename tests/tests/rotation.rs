//! Replaces certificates while nodes and producers continue to run. The test first replaces the certificates of nodes
//! and clients, and then the certificate authority that signs them. Finally, it revokes the certificate of one
//! producer. This producer must be disconnected, and all others must continue.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstseen_client::{Client, ConnectOptions, Filter, TlsFiles, Verdict, Wait};
use nix::sys::signal::Signal;

use crate::asking::opened;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::run::{Folder, Ran};

const NODES: [&str; 3] = ["a", "b", "c"];
/// Maximum time until nodes use changed files. They check the files every ten seconds.
const ACTS_WITHIN: Duration = Duration::from_secs(15);

/// Nodes a, b and c, which all read their certificates from the folder `certs` of the first node.
struct Secured {
    nodes: Vec<OwnNode>,
}

impl Secured {
    fn start() -> Self {
        let folder = Folder::new();
        folder.run("certs --out first --nodes a,b,c --clients crawler,other --admin").ok();
        fs::create_dir(folder.path("certs")).expect("a folder");
        let certs = folder.path("certs");
        copy_all(&folder, "first", |_| true);
        folder.run("certs --out first --revoke other.client").ok();
        fs::copy(folder.path("first/ca.crl"), folder.path("certs/ca.crl")).expect("a file");
        let settings = |name: &str| {
            let at = |file: &str| certs.join(file).display().to_string();
            let [ca, crl, cert, key] =
                ["ca.pem".to_owned(), "ca.crl".to_owned(), format!("{name}.node.pem"), format!("{name}.node.key")]
                    .map(|file| at(&file));
            format!("[tls]\nca = \"{ca}\"\ncrl = \"{crl}\"\ncert = \"{cert}\"\nkey = \"{key}\"\n")
        };
        let texts = NODES.map(settings);
        let mut nodes = vec![OwnNode::start_in(folder, "a", &texts[0])];
        nodes.extend(NODES[1..].iter().zip(&texts[1..]).map(|(name, text)| OwnNode::start(name, text)));
        let secured = Self { nodes };
        let form = secured.nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(" ");
        eventually("a cluster", || secured.run("admin", &format!("cluster form {form}")).code == Some(0));
        let create = "filter create clicks --slicing vertical:3 --answer safe --capacity 100k --window 1h --clock wall";
        secured.at_cluster("admin", create).ok();
        secured
    }

    fn folder(&self) -> &Folder {
        &self.nodes[0].folder
    }

    fn run(&self, who: &str, arguments: &str) -> Ran {
        self.folder()
            .run(&format!("{arguments} --tls-ca certs/ca.pem --tls-cert certs/{who}.pem --tls-key certs/{who}.key"))
    }

    fn at_cluster(&self, who: &str, arguments: &str) -> Ran {
        self.run(who, &format!("{arguments} --cluster {}", self.addresses().join(",")))
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    fn files(&self, who: &str) -> TlsFiles {
        let at = |file: &str| self.folder().path(&format!("certs/{file}"));
        TlsFiles { ca: at("ca.pem"), cert: at(&format!("{who}.pem")), key: at(&format!("{who}.key")) }
    }

    fn filter(&self, who: &str) -> (Client, Filter) {
        let options = ConnectOptions { tls: Some(self.files(who)), ..ConnectOptions::from(self.addresses()) };
        let client = Client::connect(options).wait().expect("a node answers");
        let filter = opened(&client, "clicks");
        (client, filter)
    }

    /// Makes every node read its certificate files, and waits until all nodes have logged the change.
    fn take_over(&self, times: usize) {
        self.nodes.iter().for_each(|node| node.signal(Signal::SIGHUP));
        eventually("all nodes take them over", || {
            self.nodes.iter().all(|node| node.log().matches("the certificates have changed").count() >= times)
        });
    }
}

/// Copies files of `from` to `certs`. Each file is replaced atomically.
fn copy_all(folder: &Folder, from: &str, wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder.path(from)).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        if wanted(&name) {
            replace(folder, &name, &fs::read(folder.path(&format!("{from}/{name}"))).expect("a file"));
        }
    }
}

fn replace(folder: &Folder, name: &str, bytes: &[u8]) {
    fs::write(folder.path("certs/new"), bytes).expect("a file");
    fs::rename(folder.path("certs/new"), folder.path(&format!("certs/{name}"))).expect("a rename");
}

/// Guard that ends the load, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends events one after the other until told to end. Returns the number of events, and the undecided verdicts.
fn load(filter: &Filter, ends: &AtomicBool, count: &AtomicU64) -> (u64, Vec<String>) {
    let (mut sent, mut undecided) = (0u64, Vec::new());
    while !ends.load(Ordering::Relaxed) {
        count.store(sent, Ordering::Relaxed);
        let key = sent.to_le_bytes();
        match filter.observe(&key).wait().expect("an answer") {
            Verdict::FirstSeen => {}
            other => undecided.push(format!("event {sent}: {other:?}")),
        }
        sent += 1;
    }
    (sent, undecided)
}

#[test]
fn leaves_and_then_the_authority_are_changed_under_load_and_nothing_is_undecided() {
    let secured = Secured::start();
    let folder = secured.folder();
    let (_client, filter) = secured.filter("crawler.client");
    let (ends, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (sent, undecided) = thread::scope(|scope| {
        let loading = scope.spawn(|| load(&filter, &ends, &count));
        let ends = Ends(&ends);
        let is_leaf = |name: &str| name.contains(".node.") || name.contains(".client.") || name.starts_with("admin.");
        // The same authority issues new certificates.
        let copied =
            ["ca.pem", "ca.key"].map(|name| (name, fs::read(folder.path(&format!("first/{name}"))).expect("it")));
        fs::create_dir(folder.path("leaves")).expect("a folder");
        copied.iter().for_each(|(name, bytes)| folder.write(&format!("leaves/{name}"), bytes));
        folder.run("certs --out leaves --nodes a,b,c --clients crawler --admin").ok();
        copy_all(folder, "leaves", is_leaf);
        secured.take_over(1);
        secured.at_cluster("admin", "filter list").ok();
        // A second authority is added, then its certificates replace the old ones, and then the first authority is
        // removed.
        folder.run("certs --out second --nodes a,b,c --clients crawler --admin").ok();
        let [first, second] =
            ["first", "second"].map(|from| fs::read(folder.path(&format!("{from}/ca.pem"))).expect("a file"));
        replace(folder, "ca.pem", &[&first[..], &second].concat());
        secured.take_over(2);
        copy_all(folder, "second", is_leaf);
        secured.take_over(3);
        secured.at_cluster("admin", "filter list").ok();
        replace(folder, "ca.pem", &second);
        secured.take_over(4);
        secured.at_cluster("admin", "filter list").ok();
        let before = count.load(Ordering::Relaxed);
        eventually("events after the last step", || count.load(Ordering::Relaxed) >= before + 100);
        drop(ends);
        loading.join().expect("the producer")
    });
    assert_eq!(undecided, [""; 0], "of {sent} events");
    // Certificates of the first authority are no longer accepted.
    let old = folder.run(&format!(
        "filter list --cluster {} --tls-ca second/ca.pem --tls-cert first/admin.pem --tls-key first/admin.key",
        secured.addresses().join(",")
    ));
    old.fails(2, &["does not accept the certificate"]);
}

#[test]
fn a_producer_that_is_revoked_is_cut_off_and_others_are_not() {
    let secured = Secured::start();
    let folder = secured.folder();
    secured
        .at_cluster("other.client", "dedup --filter clicks first/ca.pem")
        .fails(2, &["does not accept the certificate"]);
    let (_client, filter) = secured.filter("crawler.client");
    assert_eq!(filter.observe(b"before").wait().expect("an answer"), Verdict::FirstSeen);
    folder.run("certs --out first --revoke crawler.client").ok();
    let begun = Instant::now();
    replace(folder, "ca.crl", &fs::read(folder.path("first/ca.crl")).expect("a list"));
    // The nodes get no signal, and notice the change themselves.
    while matches!(filter.observe(&begun.elapsed().as_nanos().to_le_bytes()).wait(), Ok(Verdict::FirstSeen)) {
        assert!(begun.elapsed() < ACTS_WITHIN, "it still produces after {:?}", begun.elapsed());
    }
    secured.at_cluster("admin", "filter list").ok();
    // A certificate and key that do not match leave the previous pair in place, and the log says why.
    let leaf = fs::read(folder.path("certs/a.node.key")).expect("a key");
    replace(folder, "a.node.key", &fs::read(folder.path("certs/b.node.key")).expect("a key"));
    let node = &secured.nodes[0];
    node.signal(Signal::SIGHUP);
    eventually("a complaint", || node.log().contains("new certificates cannot be used, the former ones stay"));
    secured.at_cluster("admin", "filter list").ok();
    replace(folder, "a.node.key", &leaf);
    secured.at_cluster("admin", "filter list").ok();
}
