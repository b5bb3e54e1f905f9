//! Implements `firstseen access token`, which manages access tokens for clients that have no certificate. This command
//! generates a new token itself and shows the token only once. The secret part of the token never leaves this machine:
//! the cluster receives and stores only a hash of it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use firstseen_routing::{Access, TokenId, TokenRecord};
use firstseen_wire::proto::admin;
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::token::{TOKEN_RANDOM_BYTES, Token};
use jiff::Timestamp;
use serde::Serialize;

use super::{ListArgs, change, listed, not_yet};
use crate::exit::UsageError;
use crate::filter::ClusterAddresses;
use crate::flags::filter::parse_duration_ms;
use crate::text::table::Table;

/// Text below the flags in the help.
const EXAMPLES: &str = "\
Nodes accept tokens if their [tls] section has tokens = true. A token gives the same rights as a
certificate of its principal. A principal can have two tokens, so that one can replace the other.

firstseen access token new crawler --out crawler.token --cluster HOST:PORT --tls-ca ...
firstseen dedup access.log --cluster HOST:PORT --filter clicks \\
  --tls-ca ca.pem --token-file crawler.token";

/// Flags of `firstseen access token`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TokenArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// The commands of `firstseen access token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token for a principal, and print it. The token cannot be shown again
    New(NewArgs),
    /// List the tokens of all principals, without their secret parts
    List(ListArgs),
    /// Revoke a token: calls with it are rejected from now on
    Revoke(RevokeTokenArgs),
}

/// Flags of `firstseen access token new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Principal that the token is for, which must have at least one right
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// How long the token is valid, or never to expire
    #[arg(long, value_name = "DURATION|never", default_value = "90d", value_parser = parse_lifetime)]
    pub expires: Expiry,
    /// Write the token to a new FILE that only its owner can read, instead of printing it
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Flags of `firstseen access token revoke`.
#[derive(Debug, Args)]
pub struct RevokeTokenArgs {
    /// Token: the 16 digits after fst_
    #[arg(value_name = "ID")]
    pub id: TokenId,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// How long a token is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The token is valid for this time from now on.
    For(Duration),
    /// The token is valid until it is revoked.
    Endless,
}

#[derive(Serialize)]
struct NewDocument<'a> {
    principal: &'a str,
    id: TokenId,
    token: &'a str,
    /// Time in seconds since 1970 at which the token expires. `None` means that it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_s: Option<u64>,
}

#[derive(Serialize)]
struct ListedDocument<'a> {
    principal: &'a str,
    id: TokenId,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_s: Option<u64>,
    is_valid: bool,
}

/// Runs `firstseen access token`.
///
/// # Errors
/// Returns the errors of the node, or an error if no node answers.
pub(super) async fn run(args: &TokenArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        TokenCommand::New(args) => new(args, out).await,
        TokenCommand::List(ListArgs { at, json }) => {
            let access = listed(&at.operator()?).await?;
            let text = if *json { json_of(&access, now_s())? } else { table_of(&access, now_s()) };
            Ok(out.write_all(text.as_bytes())?)
        }
        TokenCommand::Revoke(RevokeTokenArgs { id, at }) => {
            change(&at.operator()?, Change::RemoveToken(id.number())).await?;
            Ok(writeln!(out, "token {id} is good for nothing any more")?)
        }
    }
}

async fn new(NewArgs { principal, expires, out: file, at, json }: &NewArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let operator = at.operator()?;
    let mut random = [0; TOKEN_RANDOM_BYTES];
    getrandom::fill(&mut random).context("the system gives no random numbers")?;
    let token = Token::new(random);
    let text = token.reveal();
    // The file is written before the cluster knows the token. Otherwise an error would leave a token in the cluster
    // that no user has.
    let file = file.as_deref().map(|path| TokenFile::create(path, &text)).transpose()?;
    let expires_s = expires.end_s(now_s());
    let asked = admin::NewToken {
        principal: principal.clone(),
        id: token.id().number(),
        digest: token.digest().to_vec().into(),
        expires_s: expires_s.unwrap_or(0),
    };
    change(&operator, Change::AddToken(asked)).await?;
    if *json {
        let document = NewDocument { principal, id: token.id(), token: &text, expires_s };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?);
    }
    match file {
        Some(file) => file.keep(),
        None => writeln!(out, "{text}")?,
    }
    let until = expires_s.map_or_else(|| "until it is revoked".to_owned(), |end_s| format!("until {}", date(end_s)));
    notice!(
        "firstseen: this is the token of {principal}, valid {until}; it cannot be shown again. Clients pass it with \
         --token-file, or in FIRSTSEEN_TOKEN"
    );
    not_yet(&operator).await
}

/// A new file with a token, which only its owner can read. Dropping this value removes the file again, so that a
/// request that fails leaves no file behind.
struct TokenFile<'a> {
    path: &'a Path,
    is_kept: bool,
}

impl<'a> TokenFile<'a> {
    /// Creates the file with the token `text`.
    ///
    /// # Errors
    /// Returns an error if the file exists, because it may contain another token, or if it cannot be written.
    fn create(path: &'a Path, text: &str) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let shown = path.display();
        let mut file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(UsageError(format!(
                "cannot write the token to {shown}: the file exists, and may contain another token. Name another file \
                 with --out, or remove this one"
            ))),
            Err(error) => return Err(error).with_context(|| format!("cannot create the file {shown}")),
        };
        let created = Self { path, is_kept: false };
        writeln!(file, "{text}").with_context(|| format!("cannot write the file {shown}"))?;
        Ok(created)
    }

    /// Keeps the file, because the cluster knows its token.
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TokenFile<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(self.path);
        }
    }
}

impl Expiry {
    fn end_s(self, now_s: u64) -> Option<u64> {
        match self {
            Self::For(time) => Some(now_s.saturating_add(time.as_secs())),
            Self::Endless => None,
        }
    }
}

fn parse_lifetime(text: &str) -> Result<Expiry, String> {
    if text == "never" {
        return Ok(Expiry::Endless);
    }
    match parse_duration_ms(text).map(Duration::from_millis) {
        Ok(time) if time.as_secs() > 0 => Ok(Expiry::For(time)),
        Ok(_) => Err("a token is valid for at least one second".to_owned()),
        Err(error) => Err(format!("{error}, or never")),
    }
}

fn json_of(access: &Access, now_s: u64) -> anyhow::Result<String> {
    let documents: Vec<ListedDocument<'_>> = tokens(access)
        .map(|(principal, id, token)| ListedDocument {
            principal,
            id,
            expires_s: token.expires_s,
            is_valid: token.is_valid(now_s),
        })
        .collect();
    Ok(serde_json::to_string_pretty(&documents)? + "\n")
}

fn table_of(access: &Access, now_s: u64) -> String {
    let mut table = Table::new(&["token", "principal", "good until"]);
    for (principal, id, token) in tokens(access) {
        let until = match token.expires_s {
            None => "it is revoked".to_owned(),
            Some(end_s) if token.is_valid(now_s) => date(end_s),
            Some(end_s) => format!("{}: it has expired", date(end_s)),
        };
        table.row([id.to_string(), principal.to_owned(), until]);
    }
    if tokens(access).next().is_none() { "there are no tokens\n".to_owned() } else { table.text() }
}

fn tokens(access: &Access) -> impl Iterator<Item = (&str, TokenId, &TokenRecord)> {
    access
        .principals
        .iter()
        .flat_map(|(name, principal)| principal.tokens.iter().map(move |(id, token)| (name.as_str(), *id, token)))
}

fn date(second: u64) -> String {
    let at = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
    at.map_or_else(|| format!("{second} s since 1970"), |at| at.to_string())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_duration_or_has_no_end() {
        assert_eq!(parse_lifetime("90d").unwrap().end_s(10), Some(10 + 90 * 86_400));
        assert_eq!(parse_lifetime("never").unwrap().end_s(10), None);
        for bad in ["0", "500ms", "soon", "-1s", ""] {
            assert!(parse_lifetime(bad).is_err(), "{bad}");
        }
    }

    /// Regression test. A request that failed left an empty file, and the corrected command failed because the file
    /// existed.
    #[test]
    fn only_a_token_that_the_cluster_knows_leaves_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        drop(TokenFile::create(&path, "fst_1").unwrap());
        assert!(!path.exists());
        TokenFile::create(&path, "fst_2").unwrap().keep();
        assert_eq!(fs::read_to_string(&path).unwrap(), "fst_2\n");
        let error = TokenFile::create(&path, "fst_3").err().unwrap().to_string();
        assert!(error.contains("the file exists") && error.contains("--out"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "fst_2\n");
    }
}
