//! Implements `firstseen certs`, which creates a certificate authority for tests, and certificates in the form that the
//! nodes of a cluster check. The command never overwrites a file that exists, and it creates key files that only their
//! owner can read.

mod files;
mod issue;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use firstseen_wire::tls::{ADMIN_NAME, CLIENT_NAME, NODE_NAME, serial};

use crate::exit::UsageError;
use files::Folder;
use issue::{Authority, Role};

/// Flags of `firstseen certs`, which say which certificates to create.
///
/// The key of the authority is stored unencrypted next to the certificates that it signs, so anyone who can read the
/// folder can sign further certificates. This is acceptable for tests and in a private network that you trust, but not
/// in production. In production, let your own authority sign certificates with the same names
/// (docs/how-to/secure-a-cluster.md).
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Folder for the files. If it contains an authority that this command has created, this authority signs the
    /// certificates
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Names of nodes, as in their configurations: DIR/NAME.node.pem and .key
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// Names of producers, and of principals that firstseen access gives rights: DIR/NAME.client.pem and .key
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub clients: Vec<String>,
    /// Create a certificate for administering the cluster: DIR/admin.pem and .key
    #[arg(long)]
    pub admin: bool,
    /// Certificates that nodes must no longer accept, by the names of their files: `crawler.client` is
    /// DIR/crawler.client.pem. Writes a new DIR/ca.crl, for `crl` in `[tls]`
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pub revoke: Vec<String>,
    /// Further host names and addresses of the nodes, for tools that check them. `localhost`, 127.0.0.1 and the node's
    /// name are always included
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Keep existing files, and create only missing files
    #[arg(long)]
    pub if_absent: bool,
    /// Days until the certificates expire. The authority is valid ten times as long
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub days: u16,
}

/// Creates the files, and prints to `out` which files exist and how to use them.
///
/// # Errors
/// Returns a [`UsageError`] if a name cannot be in a certificate or if a file already exists, and another error if the
/// folder cannot be written.
pub fn run(args: &CertsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut wanted = wanted(args)?;
    let folder = Folder::open(&args.out)?;
    if !args.revoke.is_empty() {
        revoke(args, &folder, out)?;
        if wanted.is_empty() {
            return Ok(());
        }
    }
    if args.if_absent {
        wanted.retain(|(file, _)| folder.check_absent(file).is_ok())
    } else {
        wanted.iter().try_for_each(|(file, _)| folder.check_absent(file))?
    }
    if wanted.is_empty() {
        return Ok(writeln!(out, "everything is there: {}", args.out.display())?);
    }
    let authority = match folder.authority_key()? {
        Some(key) => Authority::with_key(&key, &folder.certificate("ca")?)?,
        None => {
            let authority = Authority::new()?;
            folder.write_pair("ca", &authority.certificate(u32::from(args.days) * 10)?, &authority.key())?;
            authority
        }
    };
    for (file, role) in &wanted {
        let (certificate, key) = authority.issue(role, u32::from(args.days))?;
        folder.write_pair(file, &certificate, &key)?;
    }
    print(args, &wanted, out)
}

/// Writes a new revocation list of the authority.
fn revoke(args: &CertsArgs, folder: &Folder, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(key) = folder.authority_key()? else {
        let reason = format!("{} has no authority, so no certificate can be revoked", args.out.display());
        return Err(UsageError(reason).into());
    };
    let authority = Authority::with_key(&key, &folder.certificate("ca")?)?;
    let revoked = args.revoke.iter().map(|name| {
        let number = serial(&folder.certificate(name)?);
        Ok((name.clone(), number.ok_or_else(|| UsageError(format!("{name}.pem holds no certificate")))?))
    });
    let all = folder.note_revoked(&revoked.collect::<anyhow::Result<Vec<_>>>()?)?;
    let list = folder.write_revoked(&authority.revoke(&all, u32::from(args.days) * 10)?)?;
    writeln!(out, "{}: {} certificates are revoked. In the configuration of every node:", list.display(), all.len())?;
    writeln!(out, "  [tls]\n  crl = \"{}\"", list.display())?;
    writeln!(
        out,
        "Nodes with this setting read the file every ten seconds, and close connections of revoked \
                   certificates."
    )?;
    Ok(out.flush()?)
}

/// Returns the name of each file without its ending, and the holder of its certificate.
fn wanted(args: &CertsArgs) -> anyhow::Result<Vec<(String, Role)>> {
    for name in args.nodes.iter().chain(&args.clients) {
        check_name(name)?;
    }
    for host in &args.hosts {
        if host.parse::<IpAddr>().is_err() {
            host.split('.').try_for_each(check_name)?;
        }
    }
    let nodes = args.nodes.iter().map(|name| {
        let own = [NODE_NAME.to_owned(), format!("{name}.{NODE_NAME}"), name.clone()];
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        (format!("{name}.node"), Role::node(name, own.into_iter().chain(local).chain(args.hosts.clone())))
    });
    let clients = args.clients.iter().map(|name| {
        let principal = format!("{}.{CLIENT_NAME}", name.to_ascii_lowercase());
        (format!("{name}.client"), Role::client(name, vec![CLIENT_NAME.to_owned(), principal]))
    });
    let admin = args.admin.then(|| ("admin".to_owned(), Role::client("admin", vec![ADMIN_NAME.to_owned()])));
    let wanted: Vec<_> = nodes.chain(clients).chain(admin).collect();
    if wanted.is_empty() && args.revoke.is_empty() {
        let reason = "say for whom: --nodes a,b,c, --clients crawler, --admin";
        return Err(UsageError(reason.to_owned()).into());
    }
    let mut files: Vec<&str> = wanted.iter().map(|(file, _)| file.as_str()).collect();
    files.sort_unstable();
    match files.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(UsageError(format!("{} would be made twice: give each name once", twice[0])).into()),
        None => Ok(wanted),
    }
}

/// Checks that a name is one label of a DNS name, because the certificate contains it as part of a DNS name.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_label =
        (1..=63).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-');
    if is_label && !name.starts_with('-') && !name.ends_with('-') {
        return Ok(());
    }
    let reason = format!("`{name}` is no name: use up to 63 letters, digits and -, not - at the ends");
    Err(UsageError(reason).into())
}

fn print(args: &CertsArgs, wanted: &[(String, Role)], out: &mut dyn Write) -> anyhow::Result<()> {
    // These are paths of files without their endings.
    let ca = args.out.join("ca").display().to_string();
    writeln!(out, "A test authority: {ca}.pem and {ca}.key. Its key lies here unencrypted:")?;
    writeln!(out, "do not use it if it matters who connects. Valid for {} days:", args.days)?;
    for (file, role) in wanted {
        writeln!(out, "  {}  {}", args.out.join(format!("{file}.pem")).display(), role.names().join(", "))?;
    }
    if let Some(node) = args.nodes.first() {
        let own = args.out.join(format!("{node}.node")).display().to_string();
        writeln!(out, "In the configuration of node {node}:")?;
        writeln!(out, "  [tls]\n  ca = \"{ca}.pem\"\n  cert = \"{own}.pem\"\n  key = \"{own}.key\"")?;
    }
    if args.admin {
        let flags = tls_flags(&ca, &args.out.join("admin"));
        writeln!(out, "To administer: firstseen cluster status --cluster HOST:PORT {flags}")?;
    }
    if let Some(client) = args.clients.first() {
        let flags = tls_flags(&ca, &args.out.join(format!("{client}.client")));
        writeln!(out, "To produce: firstseen dedup --cluster HOST:PORT --filter NAME {flags}")?;
    }
    Ok(out.flush()?)
}

/// Returns the flags with which a command presents the certificate at `own`. Both parameters are paths without endings.
fn tls_flags(ca: &str, own: &Path) -> String {
    let own = own.display();
    format!("--tls-ca {ca}.pem --tls-cert {own}.pem --tls-key {own}.key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_label() {
        for good in ["a", "Node-1", "7", "x".repeat(63).as_str()] {
            check_name(good).unwrap();
        }
        for bad in ["", "-a", "a-", "a.b", "a/b", "a b", "ü", "x".repeat(64).as_str()] {
            assert!(check_name(bad).is_err(), "`{bad}`");
        }
    }
}
