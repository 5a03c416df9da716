"""What an unchanged run need not conclude again. Everything works without it, only slower."""
