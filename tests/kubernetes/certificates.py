"""Who are the servers of the control plane? An authority of the bed, a certificate for loopback, a signing key."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("localhost", "kubernetes", "kubernetes.default.svc")


class Certificates:
    """Files of a folder: ca.crt, server.crt, server.key, and accounts.key, which signs service account tokens."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.server, self.server_key, self.accounts_key = (
            folder / name for name in ("ca.crt", "server.crt", "server.key", "accounts.key")
        )

    def make(self) -> None:
        authority_key, server_key, accounts_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        authority = _certificate("bed authority", authority_key, "bed authority", authority_key, is_authority=True)
        server = _certificate("bed server", server_key, "bed authority", authority_key, is_authority=False)
        for path, certificate in ((self.authority, authority), (self.server, server)):
            path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        for path, key in ((self.server_key, server_key), (self.accounts_key, accounts_key)):
            path.touch(0o600)
            path.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.TraditionalOpenSSL,
                    serialization.NoEncryption(),
                )
            )


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [*map(x509.DNSName, NAMES), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_usage(is_authority=is_authority), critical=True)
    )
    if not is_authority:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
