"""RSA-PSS signatures by OpenSSL's libcrypto in this process: a program for each would take twenty times as long, and tests of the
chat sign hundreds."""

import ctypes

_PSS_PADDING = 6  # RSA_PKCS1_PSS_PADDING
_lib = ctypes.CDLL("libcrypto.so.3")


def _function(name, result, *arguments):
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, arguments
    return function


_pointer, _int, _size, _bytes = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
_new_bio = _function("BIO_new_mem_buf", _pointer, _bytes, _int)
_free_bio = _function("BIO_free", _int, _pointer)
_read_key = _function("PEM_read_bio_PrivateKey", _pointer, _pointer, _pointer, _pointer, _pointer)
_new_context = _function("EVP_MD_CTX_new", _pointer)
_free_context = _function("EVP_MD_CTX_free", None, _pointer)
_sha256 = _function("EVP_sha256", _pointer)
_begin = _function("EVP_DigestSignInit", _int, _pointer, ctypes.POINTER(_pointer), _pointer, _pointer, _pointer)
_set_padding = _function("EVP_PKEY_CTX_set_rsa_padding", _int, _pointer, _int)
_set_salt = _function("EVP_PKEY_CTX_set_rsa_pss_saltlen", _int, _pointer, _int)
_sign = _function("EVP_DigestSign", _int, _pointer, _pointer, ctypes.POINTER(_size), _bytes, _size)


class PrivateKey:
    """Of a PEM text."""

    def __init__(self, pem):
        bio = _new_bio(pem, len(pem))
        self._key = _read_key(bio, None, None, None)
        _free_bio(bio)
        assert self._key, "no private key in PEM"

    def sign(self, message, salt):
        context, settings = _new_context(), _pointer()
        try:
            assert _begin(context, ctypes.byref(settings), _sha256(), None, self._key) == 1
            assert _set_padding(settings, _PSS_PADDING) == 1 and _set_salt(settings, salt) == 1
            length = _size()
            assert _sign(context, None, ctypes.byref(length), message, len(message)) == 1
            signature = ctypes.create_string_buffer(length.value)
            assert _sign(context, signature, ctypes.byref(length), message, len(message)) == 1
            return signature.raw[:length.value]
        finally:
            _free_context(context)
