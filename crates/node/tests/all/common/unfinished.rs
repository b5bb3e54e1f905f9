//! Calls with bodies that never end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use firstseen_wire::net::Channel;
use http::{HeaderMap, Request};
use http_body::{Body as HttpBody, Frame};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt;

/// Shared buffer with the bytes of all messages.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The beginning of a message without an end.
struct Unfinished {
    head: Option<Bytes>,
    left: usize,
    /// Set when all bytes have been passed on.
    is_sent: Arc<AtomicBool>,
}

impl HttpBody for Unfinished {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = self.left.min(ZEROS.len());
        let data = match self.head.take() {
            Some(head) => head,
            None if piece == 0 => {
                self.is_sent.store(true, Ordering::Relaxed);
                return Poll::Pending;
            }
            None => Bytes::from_static(&ZEROS[..piece]),
        };
        self.left -= if data.len() == 5 { 0 } else { piece };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

/// Makes a gRPC call that never completes its message. The call to `path` announces a message of `message_bytes` bytes,
/// sends only `bytes` of them, and then keeps the call open. The flag `is_sent` is set when these bytes have been sent.
/// Returns the status code of the node's reply.
pub async fn call(
    channel: Channel,
    path: &str,
    (message_bytes, bytes): (u32, usize),
    is_sent: Arc<AtomicBool>,
) -> Code {
    let mut head = vec![0];
    head.extend(message_bytes.to_be_bytes());
    let body = Body::new(Unfinished { head: Some(head.into()), left: bytes, is_sent });
    let request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let answer = channel.oneshot(request.body(body).expect("a request")).await;
    let response = match answer {
        Ok(response) => response,
        Err(_) => return Code::Unavailable,
    };
    let code = |headers: &HeaderMap| Status::from_header_map(headers).map(|status| status.code());
    if let Some(code) = code(response.headers()) {
        return code;
    }
    let mut body = response.into_body();
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            Some(Ok(frame)) => {
                if let Some(code) = frame.trailers_ref().and_then(code) {
                    return code;
                }
            }
            Some(Err(status)) => return status.code(),
            None => return Code::Unknown,
        }
    }
}
